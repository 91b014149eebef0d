"""Megatron-LM's arguments (megatron/training/arguments.py and megatron/core's configuration, 2026-08)."""

from __future__ import annotations

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.split import layers, named, repeated

_SCHEDULES = {"one_f_one_b": "1F1B", "interleaved": "interleaved"}
_SHARDED = {2: "optim_grads", 3: "optim_grads_params"}

Arguments = list[tuple[str, str]]


def megatron(job: Job, layout: Layout) -> dict[str, str]:
    """A file of arguments, one a line, for `pretrain_gpt.py $(cat megatron.args)`; data and tokenizer are the user's.

    Weights are placed by `--pipeline-model-parallel-layout` (E embedding, t a layer, L loss); Megatron-LM puts stage i
    on pipeline rank i mod PP.
    """
    if layout.pipeline > 1:
        named("Megatron-LM", layout, _SCHEDULES)
    if layout.offload_activations:
        raise ScenarioError(
            "Megatron-LM moves single modules' activations, no part of all; offload_activations 0 can be"
        )
    lines = [*_model(job), *_parallel(job, layout), *_batch(job, layout), *_memory(layout)]
    return {"megatron.args": "".join(f"--{name}{f' {value}' if value else ''}\n" for name, value in lines)}


def pipeline_layout(job: Job, layout: Layout) -> str:
    """The string of `--pipeline-model-parallel-layout`."""
    stages = ["t" * len(each) for each in layers(job, layout)]
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return repeated(stages)


def _model(job: Job) -> Arguments:
    model = job.model
    found: Arguments = [
        ("num-layers", str(model.layers)),
        ("hidden-size", str(model.hidden)),
        ("num-attention-heads", str(model.heads)),
        ("ffn-hidden-size", str(model.ffn)),
        ("seq-length", str(job.sequence)),
        ("max-position-embeddings", str(max(model.max_context, job.sequence))),
    ]
    if model.kv_heads != model.heads:
        found += [("group-query-attention", ""), ("num-query-groups", str(model.kv_heads))]
    if model.head_dim * model.heads != model.hidden:
        found.append(("kv-channels", str(model.head_dim)))
    found += [("swiglu", "")] * model.gated + [("untie-embeddings-and-output-weights", "")] * (not model.tied)
    if model.moe is not None:
        found += [
            ("num-experts", str(model.moe.experts)),
            ("moe-router-topk", str(model.moe.active)),
            ("moe-ffn-hidden-size", str(model.moe.ffn)),
        ]
    return found


def _parallel(job: Job, layout: Layout) -> Arguments:
    found: Arguments = [
        ("tensor-model-parallel-size", str(layout.tensor)),
        ("pipeline-model-parallel-size", str(layout.pipeline)),
        ("context-parallel-size", str(layout.context)),
    ]
    found += [("sequence-parallel", "")] * (layout.sequence_parallel and layout.tensor > 1)
    if job.model.moe is not None:
        found += [
            ("expert-model-parallel-size", str(layout.expert)),
            ("expert-tensor-parallel-size", str(layout.expert_tensor)),
        ]
    if layout.chunks > 1:
        found.append(("num-virtual-stages-per-pipeline-rank", str(layout.chunks)))
    if layout.stages > 1:
        found.append(("pipeline-model-parallel-layout", f'"{pipeline_layout(job, layout)}"'))
    if layout.zero >= 1:
        found.append(("use-distributed-optimizer", ""))
    if layout.zero in _SHARDED:
        found += [("use-megatron-fsdp", ""), ("data-parallel-sharding-strategy", _SHARDED[layout.zero])]
    if layout.overlap:
        found += [("overlap-grad-reduce", "")] + [("overlap-param-gather", "")] * (layout.zero >= 1)
    return found


def _batch(job: Job, layout: Layout) -> Arguments:
    found: Arguments = [
        ("micro-batch-size", str(layout.micro_batch)),
        ("global-batch-size", str(job.batch)),
        ("bf16", ""),
    ]
    return found + [("fp8-format", "hybrid")] * (job.precision == "fp8")


def _memory(layout: Layout) -> Arguments:
    found: Arguments = []
    if layout.recompute == "selective":
        found = [("recompute-granularity", "selective"), ("recompute-modules", "core_attn")]
    elif layout.recompute == "full":
        count = layout.recompute_layers
        method = [("recompute-method", "uniform"), ("recompute-num-layers", "1")]
        if count is not None:  # of each stage, which is what Megatron-LM's block method counts
            method = [("recompute-method", "block"), ("recompute-num-layers", str(count))]
        found = [("recompute-granularity", "full"), *method]
    return found + [("optimizer-cpu-offload", "")] * layout.offload_optimizer
