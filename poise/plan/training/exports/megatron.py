"""Megatron-LM's arguments (main of 2026-08-22, megatron/training/arguments.py), and a script that starts it."""

from __future__ import annotations

from math import gcd

from poise.catalogue.architecture import Architecture
from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import OPERATIONS, Layout, present
from poise.plan.training.exports.megatron_model import Arguments, check_model, model_arguments
from poise.plan.training.exports.split import layers, named, repeated, server

SCHEDULES = {"one_f_one_b": "1F1B", "interleaved": "interleaved"}
_MODULES = {
    "attention": "core_attn", "norm": "layernorm", "activation": "moe_act", "mla": "mla_up_proj", "experts": "moe",
    "shared": "shared_experts",
}  # fmt: skip
"""Names of `--recompute-modules` by operation."""
_SHARDED = {2: "optim_grads", 3: "optim_grads_params"}


def megatron(job: Job, layout: Layout, about: Architecture) -> dict[str, str]:
    """`megatron.args`, one argument a line, and `megatron.sh`, which runs `pretrain_gpt.py` with them by torchrun.

    Weights are placed by `--pipeline-model-parallel-layout` (E embedding, t a layer, L loss); Megatron-LM puts stage i
    on pipeline rank i mod PP, and takes the number of chunks from it.
    """
    check_megatron(job, layout)
    check_model(job, about)
    lines = [*model_arguments(job, layout, about), *_parallel(job, layout), *_batch(job, layout), *_memory(job, layout)]
    text = "".join(f"--{name}{f' {value}' if value else ''}\n" for name, value in lines)
    return {"megatron.args": text, "megatron.sh": _script(job, layout)}


def megatron_code(about: Architecture) -> list[str]:
    """What the arguments cannot say: Megatron-LM's main of this date does not hand `--rope-scaling-factor` on."""
    scaling = about.scaling
    if scaling is None or scaling.kind != "llama3" or scaling.factor == 8:
        return []
    return [f"set rope_scaling_factor={scaling.factor:g} in GPTModelConfig; --rope-scaling-factor alone leaves it at 8"]


def check_megatron(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that Megatron-LM cannot run."""
    model = job.model
    if layout.pipeline > 1:
        named("Megatron-LM", layout, SCHEDULES)
        if layout.zero > 1:
            raise ScenarioError(f"Megatron-LM's pipelines take zero 0 or 1; this layout has {layout.zero}")
    if layout.offload_activations:
        raise ScenarioError(
            "Megatron-LM moves single modules' activations, no part of all; offload_activations 0 can be"
        )
    if layout.offload_optimizer and layout.zero != 1:
        raise ScenarioError(f"Megatron-LM moves states of zero 1 to the host; this layout has zero {layout.zero}")
    if layout.recompute == "operations":
        _modules(job, layout)
    if model.mla is None and model.kv_heads % layout.tensor and layout.tensor % model.kv_heads:
        raise ScenarioError(
            f"Megatron-LM: tensor {layout.tensor} must be a multiple or a divisor of {model.kv_heads} key-value heads"
        )
    if model.moe is not None and layout.tensor > 1 and not layout.sequence_parallel:
        raise ScenarioError("Megatron-LM trains experts with tensor ranks only with sequence_parallel")


def pipeline_layout(job: Job, layout: Layout) -> str:
    """The string of `--pipeline-model-parallel-layout`."""
    stages = ["t" * len(each) for each in layers(job, layout)]
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return repeated(stages)


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
    if layout.pipeline > 1:
        found.append(("pipeline-model-parallel-layout", pipeline_layout(job, layout)))
    found += [("use-distributed-optimizer", "")] * (layout.zero >= 1)
    if layout.zero in _SHARDED:
        found += [
            ("use-megatron-fsdp", ""),
            ("data-parallel-sharding-strategy", _SHARDED[layout.zero]),
            ("ckpt-format", "fsdp_dtensor"),
            ("no-gradient-accumulation-fusion", ""),
        ]
        found += [("init-model-with-meta-device", "")] * (layout.zero == 3)
    if layout.overlap:
        found += [("overlap-grad-reduce", "")] + [("overlap-param-gather", "")] * (layout.zero >= 1)
    return found


def _batch(job: Job, layout: Layout) -> Arguments:
    found: Arguments = [
        ("micro-batch-size", str(layout.micro_batch)),
        ("global-batch-size", str(job.batch)),
        ("bf16", ""),
    ]
    found += [("grad-reduce-in-bf16", "")] * (layout.gradient_bytes == 2)
    return found + [("fp8-format", "hybrid")] * (job.precision == "fp8")


def _modules(job: Job, layout: Layout) -> list[str]:
    """The values of `--recompute-modules`; ScenarioError for what Megatron-LM's modules do not recompute so.

    `moe_act` is of experts alone and `moe` takes shared experts with it; dense blocks beside experts are computed
    again whole (`mlp`), which keeps no more than planned.
    """
    model, chosen = job.model, set(present(layout.operations, job.model))
    if "products" in chosen:
        raise ScenarioError("Megatron-LM recomputes no single products; leave products out of recompute")
    if "activation" in chosen and model.moe is None:
        raise ScenarioError(f"Megatron-LM recomputes activation functions of experts, which {model.name} has not")
    if "experts" in chosen and model.moe is not None and model.moe.shared and "shared" not in chosen:
        raise ScenarioError("Megatron-LM recomputes shared experts with the routed ones; name both, experts+shared")
    chosen -= {"shared"} if "experts" in chosen else set()
    dense = "activation" in chosen and model.dense_layers > 0
    return [_MODULES[each] for each in OPERATIONS if each in chosen] + ["mlp"] * dense


def _memory(job: Job, layout: Layout) -> Arguments:
    found: Arguments = []
    if layout.recompute == "selective":
        found = [("recompute-granularity", "selective"), ("recompute-modules", "core_attn")]
    elif layout.recompute == "operations":
        names = _modules(job, layout)
        found = [("recompute-granularity", "selective"), ("recompute-modules", " ".join(names))]
        if job.precision == "fp8" and {"moe_act", "layernorm"} & set(names):  # refused with its delayed scaling
            found.append(("fp8-recipe", "tensorwise"))
    elif layout.recompute == "full":
        count = layout.recompute_layers
        method = [("recompute-method", "uniform"), ("recompute-num-layers", "1")]
        if count is not None:  # of each stage, which is what Megatron-LM's block method counts
            method = [("recompute-method", "block"), ("recompute-num-layers", str(count))]
        found = [("recompute-granularity", "full"), *method]
    offloaded: Arguments = [("optimizer-cpu-offload", ""), ("use-precision-aware-optimizer", "")]
    return found + offloaded * layout.offload_optimizer


def _script(job: Job, layout: Layout) -> str:
    """Runs on every server; without arguments it trains ten steps on mock data."""
    each = gcd(job.devices, server(job))
    # Megatron-LM demands one connection where tensor or context ranks overlap, and several for its FSDP.
    connections = (
        "unset CUDA_DEVICE_MAX_CONNECTIONS" if layout.zero in _SHARDED else "export CUDA_DEVICE_MAX_CONNECTIONS=1"
    )
    return f"""\
#!/bin/sh
# Start it on every server, in a checkout of Megatron-LM or with MEGATRON set to one:
#   MASTER_ADDR=first-server NODE_RANK=0 sh megatron.sh --data-path ... --tokenizer-type ... --train-iters ... --lr ...
# Without arguments it trains ten steps on mock data.
set -f
{connections}
here=$(dirname "$0")
if [ $# -eq 0 ]; then
  set -- --mock-data --tokenizer-type NullTokenizer --vocab-size {job.model.vocab - 1} \\
    --train-iters 10 --lr 1e-4 --lr-decay-style constant --eval-iters 0
fi
exec torchrun --nnodes {job.devices // each} --nproc-per-node {each} --node-rank "${{NODE_RANK:-0}}" \\
  --master-addr "${{MASTER_ADDR:-localhost}}" --master-port "${{MASTER_PORT:-29500}}" \\
  "${{MEGATRON:-.}}/pretrain_gpt.py" $(cat "$here/megatron.args") "$@"
"""
