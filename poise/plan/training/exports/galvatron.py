"""Galvatron's strategy file (2026-06, galvatron/core/runtime/hybrid_parallel_config.py): one value for each layer."""

from __future__ import annotations

import json
from collections.abc import Sequence

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.split import bf16_only, layers, named, no_operations

SCHEDULES = {"gpipe": "gpipe", "one_f_one_b": "pipedream_flush"}
_DEFAULT = {0: "ddp", 1: "zero2", 2: "zero2", 3: "zero3"}


def galvatron(
    job: Job, layout: Layout, each: Sequence[Layout] = (), shared: Sequence[bool] = (), vocab: int = 0
) -> dict[str, str]:
    """`galvatron.json`; `each` are strategies of single layers on the layout's stages, where they differ.

    shared: layers whose tensor ranks share sequences (Ulysses).  vocab: tensor ranks of embedding and head (0: as the
    layout's).

    Galvatron has ZeRO-2 and 3; a layout of ZeRO-1 is written as ZeRO-2, which holds no more.
    """
    check_galvatron(job, layout)
    kind = SCHEDULES[layout.schedule] if layout.pipeline > 1 else "gpipe"
    count = job.model.layers
    full = layout.recompute_layers
    stages = layers(job, layout)
    kept = {layer for stage in stages for layer in (stage if full is None else list(stage)[:full])}
    again = [layout.recompute == "full" and layer in kept for layer in range(count)]
    if each:
        again = [one.recompute == "full" for one in each]
    else:
        each = [layout] * count
    sharded = int(layout.zero == 3)
    settings = {
        "pp_deg": layout.pipeline,
        "tp_sizes_enc": ",".join(str(one.tensor) for one in each),
        "tp_consecutive_flags": ",".join(["1"] * count),
        "dp_types_enc": ",".join("1" if one.zero == 3 else "0" for one in each),
        "use_sp": ",".join("1" if one else "0" for one in shared or [False] * count),
        "checkpoint": ",".join("1" if one else "0" for one in again),
        "global_bsz": job.batch,
        "chunks": layout.microbatches(job),
        "pp_division": ",".join(str(len(stage)) for stage in stages),
        "pipeline_type": kind,
        "default_dp_type": _DEFAULT[layout.zero],
        "vtp": vocab or layout.tensor,
        "vsp": 0,
        "embed_sdp": sharded,  # what its search writes
        "vocab_sdp": sharded,  # what its runtime reads
    }
    return {"galvatron.json": json.dumps(settings, indent=4) + "\n"}


def check_galvatron(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that Galvatron's file cannot state."""
    bf16_only("Galvatron", job)
    if layout.pipeline > 1:
        named("Galvatron", layout, SCHEDULES)
    if layout.expert > 1 or layout.expert_tensor > 1 or layout.context > 1:
        raise ScenarioError("Galvatron's file states no expert or context ranks; use Megatron-LM's arguments")
    no_operations("Galvatron", layout)
    if layout.offload_optimizer or layout.offload_activations:
        raise ScenarioError("Galvatron keeps everything on the devices; take a layout without offloading")
