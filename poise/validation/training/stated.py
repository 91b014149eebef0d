"""Runs by what their columns and notes state, whatever software made them; what is silent is assumed, and said so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.core.model import Model
from poise.core.spec import Device
from poise.cost.training import Job, Layout, predict
from poise.cost.training.layout import ALTERNATE
from poise.validation.training.read import Row
from poise.validation.training.recipes import Recipe
from poise.validation.training.run import Conditions
from poise.validation.training.shapes import model_of
from poise.validation.training.software import Software, released, software
from poise.validation.training.words import SilentError, device_of, noted, precision_of, recomputed, whole

SEQUENCE = 8192
"""Tokens of a sequence where none are stated: what Llama 3 is trained on (torchtitan's default)."""
TOKENS = 16_384
"""Tokens of a device's microbatch where no batch is stated: enough for products to reach their rate."""
RANK = 16
"""Rank of LoRA's adapters where none is stated (MLPerf's)."""
SKEW = {1: 1.0, 2: 1.04, 4: 1.16, 8: 1.28, 16: 1.75, 32: 2.5, 64: 3.84}
"""Load of the fullest rank of experts over the mean where routing is natural, by ranks: of OLMoE's recorded routing
(`bench/skew.py`)."""


MOST = ("norm", "mla", "experts", "shared")
"""What is recomputed of mixtures of experts where activation functions alone are not enough."""


class Assumed(list[str]):
    """What a run's source does not state, in words."""

    def default(self, row: Row, name: str, value: int, words: str = "") -> int:
        """A count, or `value` with a note where it is not stated."""
        found = whole(row, name, 0)
        if not found:
            self.append(words or f"{name} {value}")
        return found or value


def stated(row: Row) -> Conditions:
    """The conditions of one row; SilentError for what cannot be assumed."""
    soft = software(row)
    assumed = Assumed()
    device, model, devices = device_of(row), model_of(row), whole(row, "n_gpus")
    layout = _degrees(row, soft, model, devices, assumed)
    job, layout, known = _batched(row, soft, (model, device, devices), layout, assumed)
    if not soft.torchtitan and layout.chunks > 1:
        layout = replace(layout, schedule="interleaved")
    layout = (
        _recomputed(row, soft, job, layout, assumed) if known is None or row["recompute"] else _known(layout, known)
    )
    return job, layout, "B" if assumed else "A", tuple(assumed), True


def _degrees(row: Row, soft: Software, model: Model, devices: int, assumed: Assumed) -> Layout:
    """Degrees of parallelism and sharding."""
    sharded = "fsdp" in row["schedule"].lower()
    free = soft.sharded or sharded or devices == 1
    if free and not row["tp"] and not row["pp"]:
        assumed.append("weights sharded over all devices")
    tensor, pipeline = whole(row, "tp", 1 if free else None), whole(row, "pp", 1 if free or row["tp"] else None)
    context = whole(row, "cp", 1)
    data, rest = divmod(devices, tensor * pipeline * context)
    if rest or not data:
        raise SilentError(f"tp {tensor} x pp {pipeline} x cp {context} does not divide {devices} devices")
    expert = _experts(row, model, tensor * context * data, assumed)
    chunks = _chunks(row, assumed) if pipeline > 1 else 1
    every = sharded or (soft.sharded and pipeline == 1)
    wide = tensor if "ETP=;" in row["notes"] and "Folding" not in row["schedule"] and not sharded else 1
    return Layout(
        tensor=tensor, pipeline=pipeline, context=context, data=data, expert=expert, chunks=chunks,
        expert_tensor=min(wide, max(1, tensor * context * data // expert)), zero=3 if every else 1,
        gradient_bytes=2 if every else 4, schedule="interleaved" if chunks > 1 else "one_f_one_b",
    )  # fmt: skip


def _experts(row: Row, model: Model, ranks: int, assumed: Assumed) -> int:
    """Ranks that share a layer's experts; where DeepEP exchanges tokens, there are such."""
    if row["ep"] or model.moe is None or "DeepEP" not in row["notes"]:
        return whole(row, "ep", 1)
    most = max(each for each in range(1, ranks + 1) if ranks % each == 0 and model.moe.experts % each == 0)
    assumed.append(f"ep {most}")
    return most


def _chunks(row: Row, assumed: Assumed) -> int:
    """Stages of a rank: as stated, else one, which is Megatron-LM's default."""
    found = whole(row, "vpp", 0)
    if found:
        return found
    if "interleaved" in row["schedule"].lower():
        raise SilentError("vpp is not stated")
    if row["schedule"] != "1F1B":
        assumed.append("one stage a rank")
    return 1


def _batched(
    row: Row, soft: Software, parts: tuple[Model, Device, int], layout: Layout, assumed: Assumed
) -> tuple[Job, Layout, Recipe | None]:
    """The job with its batch, the layout with its microbatch, and the recipe that states what is recomputed."""
    model, device, devices = parts
    sequence = assumed.default(row, "seq", min(SEQUENCE, model.max_context or SEQUENCE))
    size = whole(row, "micro_batch", 0) or noted(row, r"(?:local batch|LBS=) ?(\d+)")
    batch = whole(row, "global_batch", 0)
    steps = noted(row, r"GA=(\d+)|gradient accumulation (\d+)")
    if not size and not batch and row["metric"] not in ("throughput", "MFU", "model_TFLOPs", "peak_memory"):
        raise SilentError("neither the batch nor the microbatch is stated")
    if not size:
        each = batch // layout.data if batch else 0
        alone = layout.pipeline == 1 and (soft.sharded or steps)
        size = max(1, each // max(steps, 1)) if each and alone else 1 if batch else max(1, TOKENS // sequence)
        assumed.append(f"microbatches of {size}")
    if not batch:
        batch = size * layout.data * max(steps, 1)
        assumed.append(f"batches of {batch}")
    precision, known = precision_of(row, device.fp8_flops > 0 and not soft.sharded)
    if not known and soft.stated:
        raise SilentError("the precision is not stated")
    if not known:
        assumed.append(f"precision {precision}")
    words = f"{row['model']} {row['notes']} {row['table']}".lower()
    compiled = "compile" in f"{row['schedule']} {row['notes']}".lower()
    fields: dict[str, Any] = dict(soft.job)
    if soft.torchtitan:
        fields |= {"fused": "all" if compiled else "none", "gathered": layout.tensor == 1}  # else its parallel loss
    own, known_recipe = released(row, model, device, precision) if soft.released else ({}, None)
    fields |= own
    if "lora" in words:
        fields["adapters"] = noted(row, r"rank (\d+)") or RANK
    if "1f1b overlap" in words or "dualpipe" in words or "DualPipe" in row["schedule"]:
        fields["paired"] = True
    if "chunked" in words:
        fields["chunked"] = True
    if "natural routing" in words:
        fields["skew"] = SKEW[max(ranks for ranks in SKEW if ranks <= layout.expert)]
    node = noted(row, r"nodes \d+ x (\d+)")
    job = Job(
        model, device, devices, sequence, batch, precision=precision,  # type: ignore[arg-type]
        node=node if node and device.scaleup_domain <= 8 else 0, nic_bw=noted(row, r"(\d+) ?Gb/s per GPU") * 1e9 / 8,
        **fields,
    )  # fmt: skip
    return job, replace(layout, micro_batch=size), known_recipe


def _known(layout: Layout, known: Recipe) -> Layout:
    """The layout with what its recipe computes again."""
    return replace(layout, recompute="operations" if known.operations else "none", operations=known.operations)


def _recomputed(row: Row, soft: Software, job: Job, layout: Layout, assumed: Assumed) -> Layout:
    """The layout with what is computed again: as stated, else the least with which it fits."""
    found = recomputed(row, soft.torchtitan)
    if found is None and soft.torchtitan:  # its default
        assumed.append("recompute by operation")
        found = "operations", ALTERNATE
    if found is not None:
        return replace(layout, recompute=found[0], operations=found[1])  # type: ignore[arg-type]
    if "activation offload" in row["notes"]:  # to the CPU of a superchip, behind compute
        assumed.append("activations on the host cost no time")
        return layout
    ways: list[dict[str, Any]] = [{"recompute": "none"}, {"recompute": "selective"}, {"recompute": "operations"}]
    ways += [{"recompute": "operations", "operations": MOST}] if job.model.moe is not None else []
    ways += [{"recompute": "full"}]
    ways += [{"recompute": "full", "offload_activations": 1.0}] if job.device.host_bw else []
    kept = replace(job, attention="flash") if job.attention == "fused" else job  # sinks' kernels keep no scores
    for way in ways:
        tried = replace(layout, **way)
        if predict(kept, tried).fits(job):
            break
    else:  # memory is misjudged: the figures of the step are at least the common case's
        tried = replace(layout, recompute="full")
    assumed.append(f"recompute {tried.recompute}" + " and activations in host memory" * (tried.offload_activations > 0))
    return tried
