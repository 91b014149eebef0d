"""The kinds of replica for a plan: a device, a layout and a format each, and why others are not possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from poise.catalogue.engines import on_ranks
from poise.core.errors import CapacityError, ScenarioError
from poise.core.model import Model
from poise.core.spec import Device, Engine, Format, Pool
from poise.cost.layout import HOST_DEVICES
from poise.cost.memory import kv_blocks
from poise.plan.cap import UNSTATED, Caps
from poise.plan.fleet import unit_name

WIDEST = 16
"""Most devices of one replica by default."""


@dataclass(frozen=True, slots=True)
class Units:
    """Replicas that can hold the model and its longest request, and why the other kinds cannot, by name."""

    able: tuple[Pool, ...]
    refused: Mapping[str, str]


def units(
    model: Model,
    devices: Sequence[Device],
    prices: Mapping[str, float],
    *,
    formats: Sequence[Format] = ("bf16", "fp8"),
    kv: Sequence[Format] = ("bf16",),
    engine: Engine | None = None,
    longest: int = 0,
    widest: int = WIDEST,
    caps: Caps | None = None,
) -> Units:
    """Every kind of replica of `model` on `devices`.

    prices: dollars per device-hour by the device's name; those without one are 0.  formats, kv: of weights and of the
    KV cache; a device takes weights that it computes.  longest: tokens of the longest request, which must fit.
    widest: devices of one replica.  caps: watts of a device to try.
    """
    able: list[Pool] = []
    refused: dict[str, str] = {}
    bare = Pool(model, devices[0], engine=engine or Engine())
    for device in devices:
        for layout in layouts(model, device, widest):
            for weights, cache, watts in product(formats, kv, (caps or {}).get(device.name, UNSTATED)):
                if not computes(device, weights):
                    continue
                pool = on_ranks(replace(
                    bare, device=device, weights=weights, kv=cache, power_cap_w=watts,
                    price_per_hour=prices.get(device.name, 0.0), **layout,  # type: ignore[arg-type]
                ))  # fmt: skip
                why = lacks(pool, longest)
                if why:
                    refused[unit_name(pool)] = why
                else:
                    able.append(pool)
    return Units(tuple(able), refused)


def layouts(model: Model, device: Device, widest: int) -> Iterator[dict[str, int]]:
    """Degrees of tensor, pipeline, data and expert parallelism that make sense on `device`.

    A tensor group stays in a scale-up domain, or in a host where there is none; stages go beyond it. Attention is
    repeated (`data`) for mixtures of experts only, whose experts are then spread over all ranks.
    """
    domain = device.scaleup_domain if device.scaleup_domain > 1 else HOST_DEVICES
    for tensor in _powers(min(domain, widest)):
        if model.heads % tensor:
            continue
        yield {"tensor": tensor}
        if model.moe is not None and tensor > 1 and model.moe.experts % tensor == 0:
            yield {"tensor": tensor, "expert": tensor}
            yield {"tensor": 1, "data": tensor, "expert": tensor}
        for stages in _powers(widest // tensor):
            if stages > 1 and tensor * 2 > min(domain, widest) and stages <= model.layers:
                yield {"tensor": tensor, "pipeline": stages}


def computes(device: Device, weights: Format) -> bool:
    """Whether a device has arithmetic for a format; 4-bit integers are widened to 16 bits by every one."""
    peaks = {"bf16": device.bf16_flops, "fp8": device.fp8_flops, "int8": device.int8_ops, "fp4": device.fp4_flops}
    return peaks.get(weights, device.bf16_flops) > 0


def lacks(pool: Pool, longest: int) -> str:
    """Why a replica cannot serve: its memory, its links or the longest request; empty where it can."""
    try:
        room = kv_blocks(pool) * pool.engine.block_tokens
    except (CapacityError, ScenarioError) as error:
        return str(error)
    if pool.model.max_context < longest:
        return f"{pool.model.name} ends at {pool.model.max_context} tokens, and a request has {longest}"
    if room < longest:
        return f"its KV cache holds {room} tokens, and a request has {longest}"
    return ""


def alone(pool: Pool, role: str) -> Pool:
    """The same replica for one half of the work only."""
    return replace(pool, role=role)  # type: ignore[arg-type]


def _powers(most: int) -> Iterator[int]:
    degree = 1
    while degree <= most:
        yield degree
        degree *= 2
