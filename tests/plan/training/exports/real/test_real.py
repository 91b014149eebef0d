"""Exported settings are read by the trainers' own code, and are the layout and the model that were planned."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from poise.catalogue.architecture import architecture
from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.cost.training.job import Job
from poise.cost.training.layout import ALTERNATE, Layout
from poise.plan.training.exports.accelerate import accelerate
from poise.plan.training.exports.deepspeed import deepspeed
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.exports.megatron import megatron
from poise.plan.training.exports.split import layers
from poise.plan.training.exports.torchtitan import MAIN, RELEASE, torchtitan, torchtitan_main
from tests.cached import Unavailable
from tests.plan.training.exports.real.had import ask, packages, sources
from tests.plan.training.exports.real.record import FILE, known, text

pytestmark = pytest.mark.slow

DATA = [
    "--mock-data", "--tokenizer-type", "NullTokenizer", "--vocab-size", "255", "--train-iters", "10", "--lr", "1e-4",
]  # fmt: skip
ALONE = [
    "--use-cpu-initialization", "--transformer-impl", "local", "--no-rope-fusion", "--no-persist-layer-norm",
    "--no-gradient-accumulation-fusion", "--no-masked-softmax-fusion",
]  # fmt: skip
"""What lets Megatron-LM build a model without a device."""

SMALL: dict[str, object] = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 3, "vocab_size": 256, "max_position_embeddings": 128,
}  # fmt: skip
LATENT: dict[str, object] = {
    "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
}  # fmt: skip
EXPERTS: dict[str, object] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
CONFIGS: dict[str, dict[str, object]] = {
    "llama": {},
    "llama tied": {"model_type": "llama", "tie_word_embeddings": True},
    "qwen2": {},
    "qwen3": {"head_dim": 32},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"head_dim": 16, **EXPERTS},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 64},
    "deepseek_v3": LATENT,
    "gpt2": {"n_layer": 3, "n_embd": 64, "n_head": 4, "n_positions": 128},
}
"""Small models of each class that Megatron-LM's arguments describe."""

BIG = [
    ("llama-3-70b", 64, Layout(tensor=8, pipeline=4, chunks=5, data=2, schedule="interleaved")),
    ("llama-3-70b", 64, Layout(tensor=8, pipeline=4, data=2, recompute="full", recompute_layers=5)),
    ("llama-3.1-8b", 8, Layout(data=8, zero=3, recompute="selective")),
    ("llama-3.1-8b", 8, Layout(tensor=2, data=2, context=2, offload_optimizer=True, recompute="full")),
    ("llama-3.2-1b", 8, Layout(data=8, zero=0, gradient_bytes=2)),
    ("mistral-7b-v0.1", 8, Layout(tensor=4, data=2, zero=2)),
    ("deepseek-v3", 128, Layout(pipeline=16, data=8, expert=8, split=(3, *[4] * 14, 2))),
    ("deepseek-v3", 128, Layout(pipeline=16, data=8, expert=8, recompute="operations")),
    ("deepseek-v2-lite", 8, Layout(tensor=4, data=2, expert=4)),
    ("kimi-k2-instruct", 128, Layout(pipeline=8, data=16, expert=16)),
    ("qwen3-30b-a3b", 16, Layout(tensor=4, pipeline=2, data=2, expert=8)),
    ("mixtral-8x22b", 128, Layout(tensor=2, pipeline=8, data=8, expert=8)),
    ("qwen2.5-7b", 8, Layout(tensor=4, data=2)),
]


def had(get: Callable[[str], Path], name: str) -> Path:
    """A package's folder; the test is skipped where it cannot be had."""
    try:
        return get(name)
    except Unavailable as why:
        pytest.skip(str(why))


def a_job(name: str | Path, devices: int, **more: Any) -> Job:
    return Job(model(name), device("H100"), devices, 4096, 256, **more)


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


def test_the_short_tests_know_the_options_of_these_versions() -> None:
    try:
        assert FILE.read_text() == text(known())
    except Unavailable as why:
        pytest.skip(str(why))


def test_megatron_takes_the_arguments_and_places_the_layers() -> None:
    place, cases = had(sources, "megatron"), []
    for name, devices, layout in BIG:
        arguments = megatron(a_job(name, devices), layout, architecture(name))["megatron.args"].split()
        cases.append((devices, "" if layout.zero > 1 else "1", [*arguments, *DATA]))
    for (name, devices, layout), found in zip(BIG, ask("megatron", cases, place), strict=True):
        job, args = a_job(name, devices), found["args"]
        sizes = [args[f"{axis}_model_parallel_size"] for axis in ("tensor", "pipeline", "expert")]
        assert sizes == [layout.tensor, layout.pipeline, layout.expert]
        assert (args["context_parallel_size"], args["data_parallel_size"]) == (layout.context, layout.data)
        assert (args["micro_batch_size"], args["global_batch_size"]) == (layout.micro_batch, job.batch)
        assert args["virtual_pipeline_model_parallel_size"] == (layout.chunks if layout.chunks > 1 else None)
        assert (
            args["use_distributed_optimizer"] == (layout.zero > 0)
            and args["rotary_base"] == architecture(name).rope_base
        )
        assert (
            args["use_megatron_fsdp"] == (layout.zero > 1) and args["optimizer_cpu_offload"] == layout.offload_optimizer
        )
        if layout.recompute == "operations":
            assert args["recompute_modules"] == ["layernorm", "moe_act", "mla_up_proj", "mlp"]
        about = architecture(name)
        assert found["eps"] == about.norm_eps and found["rope"][0] == about.rope_base
        assert found["rope"][1] == (about.scaling is not None and about.scaling.kind == "llama3")
        assert found["rope"][2] == 8  # whatever the argument, which `megatron_code` says
        if layout.pipeline > 1:  # stage i stands on rank i mod pipeline
            deep = [len(each) for each in layers(job, layout)]
            assert found["stages"] == [deep[rank :: layout.pipeline] for rank in range(layout.pipeline)]


def test_megatron_builds_a_model_of_exactly_the_planned_parameters(tmp_path: Path) -> None:
    place, cases, jobs = had(sources, "megatron"), [], []
    for name, own in CONFIGS.items():
        folder = tmp_path / name.replace(" ", "_")
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": name, **SMALL, **own}))
        jobs.append(Job(model(folder), device("H100"), 1, 128, 4))
        arguments = megatron(jobs[-1], Layout(), architecture(folder))["megatron.args"].split()
        cases.append((1, "1", [*arguments, *DATA, *ALONE]))
    for job, found in zip(jobs, ask("megatron", cases, place), strict=True):
        moe, sigmoid = job.model.moe, job.model.name == "deepseek_v3"
        biases = (
            moe.experts * moe.layers if moe is not None and sigmoid else 0
        )  # buffers there, as no gradient moves them
        assert found["parameters"] == job.model.parameters - biases, job.model.name


TITAN = [
    ("llama-3.1-8b", 8, Layout(data=8, zero=3, recompute="full"), "bf16"),
    ("llama-3.1-8b", 8, Layout(data=8, zero=3, recompute="operations", operations=ALTERNATE), "bf16"),
    ("llama-3-70b", 64, Layout(tensor=8, pipeline=4, chunks=5, data=2, schedule="interleaved", zero=2), "bf16"),
    ("llama-3-70b", 64, Layout(tensor=8, pipeline=4, data=2, schedule="zb_h1", zero=2), "bf16"),
    ("llama-3-70b", 64, Layout(tensor=8, pipeline=4, chunks=2, data=2, schedule="v_half", zero=3), "bf16"),
    ("llama-3.1-405b", 64, Layout(tensor=8, pipeline=8, data=1, zero=0), "bf16"),
    ("llama-3.1-8b", 8, Layout(tensor=2, context=2, data=2, zero=3), "fp8"),
    ("qwen3-30b-a3b", 8, Layout(tensor=2, data=4, expert=8, zero=3), "bf16"),
    *((name, 8, Layout(data=8, zero=3), "bf16") for name in ("qwen3-0.6b", "qwen3-1.7b", "qwen3-14b", "qwen3-32b")),
    ("deepseek-v2-lite", 8, Layout(data=8, expert=8, zero=3), "bf16"),
    ("deepseek-v3", 32, Layout(pipeline=4, data=8, expert=8, zero=2), "bf16"),
]


@pytest.mark.parametrize("version", [RELEASE, MAIN], ids=["release", "main"])
def test_torchtitan_takes_the_file_and_trains_the_planned_model(version: Any, tmp_path: Path) -> None:
    release = version is RELEASE
    places = (
        [had(packages, "torchtitan")]
        if release
        else [had(sources, "torchtitan-main"), had(packages, "torchtitan-needs")]
    )
    export = torchtitan if release else torchtitan_main
    jobs = [a_job(name, devices, precision=precision) for name, devices, _, precision in TITAN]
    folders = [
        written(tmp_path / str(at), export(job, layout))
        for at, (job, (_, _, layout, _)) in enumerate(zip(jobs, TITAN, strict=True))
    ]
    cases = [(str(folder), version.module, job.devices) for folder, job in zip(folders, jobs, strict=True)]
    for job, (name, _, layout, _), found in zip(jobs, TITAN, ask("torchtitan", cases, *places), strict=True):
        shard = layout.data if layout.zero > 1 else 1
        sizes = [layout.pipeline, layout.data // shard, shard, layout.context, layout.tensor, layout.expert]
        assert found["dims"] == sizes
        moe = job.model.moe
        biases = moe.experts * moe.layers if moe is not None and architecture(name).router.sigmoid else 0  # type: ignore[union-attr]
        assert found["parameters"] == job.model.parameters - biases, name
        scaling = architecture(name).scaling
        assert found["rope"][0] == architecture(name).rope_base
        assert (found["rope"][1] == "none") == (scaling is None)
        assert found["compiled"] == (job.precision == "fp8")
        assert (
            found["recompute"]
            == {"none": "NoneType", "full": "FullAC.Config", "operations": "SelectiveAC.Config"}[layout.recompute]
        )
        assert batches(found, release, job, layout) == layout.microbatches(job)


def batches(found: dict[str, Any], release: bool, job: Job, layout: Layout) -> int:
    """Microbatches of a step and rank, by the fields of the version."""
    training, ranks = found["training"], found["parallelism"]
    if release:
        local = training["local_batch_size"]
        cut = local // ranks["pipeline_parallel_microbatch_size"] if layout.pipeline > 1 else 1
        return int(training["global_batch_size"] // (local * layout.data) * cut)
    cut = ranks["num_pp_microbatches"] if layout.pipeline > 1 else 1
    assert training["max_context_length"] == job.sequence
    tokens = training["num_tokens_per_microbatch_per_dp_rank"] * cut * layout.data
    return int(training["num_tokens_per_train_step"] // tokens * cut)


ZERO = [Layout(data=8, zero=zero, micro_batch=2, recompute="full", offload_optimizer=zero == 3) for zero in (1, 2, 3)]


def test_deepspeed_takes_the_file(tmp_path: Path) -> None:
    place = had(packages, "deepspeed")
    piped = Layout(pipeline=4, data=2, zero=1)
    cut = Layout(tensor=2, data=4, zero=2, sequence_parallel=False)
    some, job = [*ZERO, piped, cut], a_job("llama-3.1-8b", 8)
    files = [written(tmp_path / str(at), deepspeed(job, each)) / "ds_config.json" for at, each in enumerate(some)]
    ranks = [each.data for each in some]  # of the batch: DeepSpeed takes pipelines and tensors out by its mesh
    cases: Sequence[Any] = [(str(file), count) for file, count in zip(files, ranks, strict=True)]
    for layout, found in zip(some, ask("deepspeed", cases, place), strict=True):
        assert (found["stage"], found["batch"], found["bf16"]) == (layout.zero, job.batch, True)
        assert (found["micro_batch"], found["accumulation"]) == (layout.micro_batch, layout.microbatches(job))
        assert found["tensor"] == (layout.tensor if layout.tensor > 1 else 0)
        assert (found["offload"] is not None) == layout.offload_optimizer and found["gradients"] == "fp32"


def test_accelerate_takes_the_file(tmp_path: Path) -> None:
    place, job = had(packages, "accelerate"), a_job("llama-3.1-8b", 16)
    some = [Layout(data=16, zero=3, recompute="full"), Layout(data=16, zero=2, offload_optimizer=True)]
    files = [written(tmp_path / str(at), accelerate(job, each)) / "fsdp.yaml" for at, each in enumerate(some)]
    for layout, found in zip(some, ask("accelerate", [str(file) for file in files], place), strict=True):
        assert (found["processes"], found["machines"], found["version"], found["precision"]) == (16, 2, 2, "bf16")
        assert (found["reshard"], found["recompute"]) == (layout.zero == 3, layout.recompute == "full")
        assert found["offload"] == ("CPUOffloadPolicy" if layout.offload_optimizer else "OffloadPolicy")


def test_galvatron_takes_the_file(tmp_path: Path) -> None:
    place, job = had(sources, "galvatron"), a_job("llama-3.1-8b", 16)
    some = [
        Layout(tensor=2, pipeline=4, data=2, recompute="full", recompute_layers=2),
        Layout(tensor=4, data=4, zero=3),
        Layout(pipeline=2, data=8, zero=0, split=(15, 17)),
    ]
    files = [written(tmp_path / str(at), galvatron(job, each)) / "galvatron.json" for at, each in enumerate(some)]
    cases = [(str(file), job.model.layers, job.devices) for file in files]
    for layout, found in zip(some, ask("galvatron", cases, place), strict=True):
        assert (found["pp_deg"], set(found["tp_sizes_enc"])) == (layout.pipeline, {layout.tensor})
        assert found["pp_division"] == [len(each) for each in layers(job, layout)]
        assert found["chunks"] == layout.microbatches(job) and found["vocab_sdp"] == (layout.zero == 3)
        assert sum(found["checkpoint_flags_enc"]) == (2 * 4 if layout.recompute == "full" else 0)
