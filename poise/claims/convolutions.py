"""PipeDream's partitioner on networks for images, whose layers are computed from their shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from poise.pipeline.partition import Layer, Level, Partition, Stage, partition

BYTES = 4
"""Of a value: 32 bits."""
PASSES = 3
"""A forward and a backward, which computes twice as much."""
VGG = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of the blocks of VGG-16 (Simonyan and Zisserman, 2015), each before a pooling."""
RESNET = ((64, 256, 3), (128, 512, 4), (256, 1024, 6), (512, 2048, 3))
"""Inner and outer channels and blocks of the stages of ResNet-50 (He et al., 2016)."""

Shape = tuple[float, float, float]
"""FLOPs of a forward, values of the output and weights, for one image."""


def _convolution(inputs: int, outputs: int, size: int, kernel: int = 3) -> Shape:
    weights = kernel**2 * inputs * outputs
    return 2.0 * weights * size**2, outputs * size**2, weights


def _dense(inputs: int, outputs: int) -> Shape:
    return 2.0 * inputs * outputs, outputs, inputs * outputs


def vgg_16() -> Iterator[Shape]:
    """13 convolutions and three dense layers; a block's last output is that of its pooling."""
    inputs, size = 3, 224
    for outputs, count in VGG:
        for at in range(count):
            flops, values, weights = _convolution(inputs, outputs, size)
            yield flops, values / 4 if at == count - 1 else values, weights
            inputs = outputs
        size //= 2
    yield _dense(inputs * size**2, 4096)
    yield _dense(4096, 4096)
    yield _dense(4096, 1000)


def resnet_50() -> Iterator[Shape]:
    """The first convolution, 16 blocks of three with their shortcuts, and the dense layer."""
    flops, values, weights = _convolution(3, 64, 112, 7)
    yield flops, values / 4, weights
    inputs, size = 64, 56
    for inner, outputs, count in RESNET:
        for at in range(count):
            parts = [
                _convolution(inputs, inner, size, 1), _convolution(inner, inner, size),
                _convolution(inner, outputs, size, 1),
                *([_convolution(inputs, outputs, size, 1)] * (at == 0)),
            ]  # fmt: skip
            yield sum(part[0] for part in parts), outputs * size**2, sum(part[2] for part in parts)
            inputs = outputs
        size //= 2
    yield _dense(2048, 1000)


NETWORKS = {"VGG-16": vgg_16, "ResNet-50": resnet_50}


@dataclass(frozen=True, slots=True)
class Planned:
    """What the partitioner chose: seconds of a minibatch, those of data parallelism, the stages, the devices of the
    first and the last, and bytes that all devices send for a minibatch, with both."""

    seconds: float
    data_s: float
    stages: int
    first: int
    last: int
    bytes: float
    data_bytes: float


@cache
def planned(
    network: str, servers: int, devices: int, near: float, far: float, *, batch: int = 64, flops: float = 20e12
) -> Planned:
    """The partition of a network over `servers` of `devices` each, joined at `near` and `far` bytes/s.

    batch: images of a minibatch on one device.  flops: at which a device computes them (a V100: about 220 images/s of
    VGG-16, as fast convolutions need fewer FLOP than are counted).
    """
    layers = [
        Layer(Fraction(PASSES * work * batch / flops), Fraction(BYTES * batch * values), Fraction(BYTES * weights))
        for work, values, weights in NETWORKS[network]()
    ]
    levels = [Level(devices, Fraction(near)), Level(servers, Fraction(far))]
    best = partition(layers, levels)
    alone = Partition(_one_stage(layers, levels), (Stage(0, len(layers) - 1, servers * devices),))
    return Planned(
        float(best.time), float(alone.time), len(best.stages), best.stages[0].replicas, best.stages[-1].replicas,
        float(_sent(layers, best)), float(_sent(layers, alone)),
    )  # fmt: skip


def _one_stage(layers: list[Layer], levels: list[Level]) -> Fraction:
    """Seconds of a minibatch where all devices have all layers, by the partitioner's own formula."""
    found = sum((layer.time for layer in layers), Fraction(0))
    for level in levels:
        found = max(found, _summed(layers, level.components) / level.bandwidth) / level.components
    return found


def _summed(layers: list[Layer], replicas: int) -> Fraction:
    """Bytes that each of the replicas sends to add up gradients."""
    return Fraction(2 * (replicas - 1), replicas) * sum((layer.weights for layer in layers), Fraction(0))


def _sent(layers: list[Layer], found: Partition) -> Fraction:
    """Bytes of all devices for a minibatch: outputs and their gradients between stages, weights' gradients in them."""
    outputs = sum((2 * layers[stage.last].output for stage in found.stages[:-1]), Fraction(0))
    own = (_summed(layers[stage.first : stage.last + 1], stage.replicas) for stage in found.stages)
    return outputs + sum(own, Fraction(0))
