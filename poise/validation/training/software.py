"""What the software of a source does that its columns do not say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poise.core.model import Model
from poise.core.spec import Device
from poise.validation.training.read import Row
from poise.validation.training.recipes import Recipe, recipe, version

SINKS = (26, 6, 0)
"""The first release with a kernel for attention with learnt sinks."""


@dataclass(frozen=True, slots=True)
class Software:
    """What a source's software does that columns do not say: `Job` fields, and whether layouts without degrees shard
    over all devices.  stated: whether its runs of one device differ in precision, so that none can be assumed.
    released: whether its tables name the release, whose recipes state what columns do not."""

    job: dict[str, Any]
    sharded: bool = False
    torchtitan: bool = False
    stated: bool = False
    released: bool = False


TORCHTITAN = {"host": "torch", "attention": "flash2"}
"""PyTorch's own attention, which is FlashAttention 2."""
MEGATRON = Software({})
SOFTWARE = {
    "pytorch/torchtitan": Software(TORCHTITAN, sharded=True, torchtitan=True),
    "arXiv:2410.06511": Software(TORCHTITAN, sharded=True, torchtitan=True),
    "NVIDIA-NeMo/Automodel": Software({"host": "torch"}, sharded=True),
    "huggingface/": Software({"host": "torch"}, sharded=True),
    "AI-Hypercomputer": Software({}, sharded=True),
    "maxtext": Software({}, sharded=True),
    "Megatron-MoE-ModelZoo": Software({}, released=True),
    "arXiv:2504.14960": Software({"once": False}),
    "NVIDIA-NeMo/Megatron-Bridge": Software({}, released=True),
    "mlcommons/": Software({"host": "graphs"}, stated=True),
}
"""Software by a part of the column of sources; other sources run Megatron-LM or what is built on it."""


def software(row: Row) -> Software:
    """The software of a row's source."""
    return next((each for words, each in SOFTWARE.items() if words in row["source"]), MEGATRON)


def released(row: Row, model: Model, device: Device, precision: str) -> tuple[dict[str, Any], Recipe | None]:
    """What a release of NeMo's containers does with experts, as `Job` fields, and the recipe that states it.

    Without a recipe a layer's experts are launched kernel by kernel, but for those that drop tokens: Megatron-LM pads
    them to a capacity, which its all-to-all dispatcher alone does, and the host need not wait for counts. Until 26.04
    attention with learnt sinks (gpt-oss) takes as long as two products with a softmax between; later it is cuDNN's.
    """
    release = version(row["table"])
    if release is None:
        return {"once": "A2A" not in row["notes"]} | ({} if "HybridEP" in row["notes"] else {"host": "launched"}), None
    fields: dict[str, Any] = {"attention": "fused"} if "gpt-oss" in model.name and release < SINKS else {}
    if model.moe is None:
        return fields, None
    if "tokendrop" in row["model"]:
        return fields | {"once": False}, None
    found = recipe(release, model.name.rpartition("/")[2], device.name.split("-")[0], precision)
    if found is None:
        return fields | {"host": "launched"}, None
    return fields | {"host": found.host, "once": found.once, "paired": found.paired}, found
