"""What the software of a source does that its columns do not say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from poise.core.model import Model
from poise.validation.training.read import Row

LAUNCHED, CAPTURED = (26, 2, 0), (26, 6, 0)
"""The last release that launches experts one by one, and the first that captures them."""


@dataclass(frozen=True, slots=True)
class Software:
    """What a source's software does that columns do not say: `Job` fields, and whether layouts without degrees shard
    over all devices.  stated: whether its runs of one device differ in precision, so that none can be assumed.
    released: whether its tables name the release, by which launching of experts differs."""

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


def release(row: Row, model: Model) -> dict[str, Any]:
    """What a release of NeMo's containers does with experts, and with attention sinks.

    Until 26.02 (and before HybridEP) a layer's experts are launched kernel by kernel; from 26.06 on whole layers are
    captured, and attention with learnt sinks (gpt-oss) is cuDNN's: before, it takes as long as two products with a
    softmax between.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", row["table"])
    if found is None:
        return {"once": "A2A" not in row["notes"]} | ({} if "HybridEP" in row["notes"] else {"host": "launched"})
    version = tuple(int(each or 0) for each in found.groups())
    fields: dict[str, Any] = {"attention": "fused"} if "gpt-oss" in model.name and version < CAPTURED else {}
    if model.moe is not None and "tokendrop" not in row["model"] and (version >= CAPTURED or version <= LAUNCHED):
        fields["host"] = "captured" if version >= CAPTURED else "launched"
    return fields
