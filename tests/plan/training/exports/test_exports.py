"""Other trainers' settings: read back, they are the layout; what a trainer cannot run is refused by name."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue.architecture import architecture, by_shape
from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.job import Job, shape
from poise.cost.training.layout import ALTERNATE, Layout
from poise.pipeline import check
from poise.pipeline.csv import read_csv
from poise.plan.training.exports import exported
from poise.plan.training.exports.accelerate import accelerate
from poise.plan.training.exports.deepspeed import deepspeed, deepspeed_code
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.exports.megatron import megatron, pipeline_layout
from poise.plan.training.exports.torchtitan import torchtitan, torchtitan_main
from tests.plan.training.exports.checker import (
    accelerate_keys,
    deepspeed_settings,
    galvatron_settings,
    layers_of,
    megatron_args,
    torchtitan_fields,
)

LAYERS = 24


def a_job(devices: int, batch: int = 64, **more: Any) -> Job:
    of = {"kv_heads": 4, "gated": True, "tied": False, **more}
    return Job(shape(LAYERS, 1024, 16, **of), device("H100"), devices, 2048, batch)


def a_named_job(name: str, devices: int, **more: Any) -> Job:
    return Job(model(name), device("H100"), devices, 4096, 256, **more)


def arguments(job: Job, layout: Layout) -> dict[str, Any]:
    return megatron_args(megatron(job, layout, by_shape(job.model))["megatron.args"])


def named_arguments(name: str, devices: int, layout: Layout) -> dict[str, Any]:
    return megatron_args(megatron(a_named_job(name, devices), layout, architecture(name))["megatron.args"])


DEEP = Layout(tensor=2, pipeline=4, data=2, micro_batch=2, recompute="selective")


@given(st.lists(st.integers(0, 5), min_size=2, max_size=8))
def test_megatron_places_the_layers_that_the_layout_does(counts: list[int]) -> None:
    job = Job(shape(max(1, sum(counts)), 64, 4), device("H100"), len(counts), 128, 8)
    split = tuple(counts) if sum(counts) else (1, *counts[1:])
    assert layers_of(pipeline_layout(job, Layout(pipeline=len(counts), split=split))) == list(split)


def test_megatron() -> None:
    found = arguments(a_job(16), DEEP)
    assert [found[f"{name}-model-parallel-size"] for name in ("tensor", "pipeline")] == [2, 4]
    assert layers_of(found["pipeline-model-parallel-layout"]) == [6] * 4
    assert (found["micro-batch-size"], found["global-batch-size"]) == (2, 64)
    assert found["recompute-modules"] == ["core_attn"] and found["num-query-groups"] == 4
    assert {"use-distributed-optimizer", "sequence-parallel", "bf16", "swiglu"} <= set(found)
    full = Layout(data=8, zero=3, recompute="full", recompute_layers=3)
    found = arguments(a_job(8), full)
    assert found["data-parallel-sharding-strategy"] == "optim_grads_params"
    assert (found["recompute-method"], found["recompute-num-layers"]) == ("block", 3)
    assert "use-precision-aware-optimizer" in arguments(a_job(8), Layout(data=8, offload_optimizer=True))
    experts = Layout(data=8, expert=4, expert_tensor=2, zero=0)
    found = arguments(a_job(8, experts=8, active=2), experts)
    assert (found["expert-model-parallel-size"], found["expert-tensor-parallel-size"]) == (4, 2)
    assert found["moe-router-topk"] == 2 and "use-distributed-optimizer" not in found


def test_megatron_interleaves_by_its_layout_alone() -> None:
    found = arguments(a_job(8), Layout(pipeline=4, data=2, chunks=3, schedule="interleaved"))
    assert layers_of(found["pipeline-model-parallel-layout"]) == [2] * 12


def test_megatron_gets_the_model_that_was_planned() -> None:
    found = named_arguments("llama-3.1-70b", 8, Layout(tensor=8))
    assert (found["normalization"], found["rotary-base"], found["rope-scaling-factor"]) == ("RMSNorm", 500_000, 8)
    assert {"disable-bias-linear", "untie-embeddings-and-output-weights", "use-rope-scaling"} <= set(found)
    assert (found["padded-vocab-size"], found["num-query-groups"], found["hidden-dropout"]) == (128_256, 8, 0)
    found = named_arguments("deepseek-v3", 8, Layout(data=8, expert=8))
    latent = [
        found[name] for name in ("q-lora-rank", "kv-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim")
    ]
    assert latent == [1536, 512, 128, 64, 128] and found["rotary-scaling-factor"] == 40
    assert found["moe-layer-freq"] == [0] * 3 + [1] * 58 and found["moe-shared-expert-intermediate-size"] == 2048
    assert (found["moe-router-num-groups"], found["moe-router-group-topk"]) == (8, 4)
    assert (found["moe-router-score-function"], found["moe-router-topk-scaling-factor"]) == ("sigmoid", 2.5)
    assert {"moe-router-enable-expert-bias", "moe-router-pre-softmax", "qk-layernorm"} <= set(found)
    found = named_arguments("qwen3-30b-a3b", 8, Layout(data=8, expert=8))
    assert "moe-router-pre-softmax" not in found and "qk-layernorm" in found and found["kv-channels"] == 128
    assert "add-qkv-bias" in named_arguments("qwen2.5-7b", 8, Layout(data=8))
    assert named_arguments("mistral-7b-v0.1", 8, Layout(data=8)).get("window-size") is None
    plain = arguments(a_job(8, gated=False, tied=True), Layout(data=8))
    assert (plain["normalization"], plain["position-embedding-type"]) == ("LayerNorm", "learned_absolute")
    assert not {"disable-bias-linear", "swiglu", "untie-embeddings-and-output-weights"} & set(plain)


def test_what_megatron_does_not_hand_on_is_printed() -> None:
    for name, factor in (("llama-3.2-1b", 32), ("llama-3.1-8b", 8), ("llama-2-7b", 1)):
        found = exported(a_named_job(name, 8), Layout(data=8), partial(architecture, name))
        printed = " ".join(found.code.get("megatron", []))
        assert ("rope_scaling_factor=32" in printed) == (factor == 32) == bool(printed)


def test_a_vocabulary_is_padded_to_the_tensor_ranks_alone() -> None:
    assert arguments(a_job(8, vocab=50_257), Layout(tensor=4, data=2))["padded-vocab-size"] == 50_260


@pytest.mark.parametrize(
    ("given", "last"), [((), "constant --eval-iters 0"), (("--data-path", "a b"), "--data-path a b")]
)
def test_the_script_starts_torchrun_on_the_servers_of_the_job(
    given: tuple[str, ...], last: str, tmp_path: Path
) -> None:
    files = megatron(a_job(16), Layout(data=16), by_shape(a_job(16).model))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "torchrun").write_text('#!/bin/sh\necho "$CUDA_DEVICE_MAX_CONNECTIONS" "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_RANK": "1", "MEGATRON": "/there"}
    done = subprocess.run(["sh", tmp_path / "megatron.sh", *given], env=env, capture_output=True, text=True, check=True)
    words = done.stdout.strip()
    assert words.startswith("1 --nnodes 2 --nproc-per-node 8 --node-rank 1 ") and words.endswith(last)
    assert "/there/pretrain_gpt.py " + " ".join(files["megatron.args"].split()) in words


def test_torchtitan_counts_batches_as_its_version_does() -> None:
    layout = Layout(tensor=2, pipeline=4, data=2, zero=3, micro_batch=2, recompute="full")
    files = torchtitan(a_job(16), layout)
    found = torchtitan_fields(files["torchtitan_config.py"], "torchtitan")
    ranks, training = found["ParallelismConfig"], found["TrainingConfig"]
    assert (
        ranks["tensor_parallel_degree"],
        ranks["pipeline_parallel_degree"],
        ranks["data_parallel_shard_degree"],
    ) == (2, 4, 2)
    assert [len(each) for each in ranks["module_fqns_per_model_part"]] == [7, 6, 6, 8]
    assert (training["local_batch_size"], training["global_batch_size"], training["seq_len"]) == (32, 64, 2048)
    found = torchtitan_fields(torchtitan_main(a_job(16), layout)["torchtitan_main_config.py"], "torchtitan-main")
    ranks, training = found["ParallelismConfig"], found["TrainingConfig"]
    assert ranks["num_pp_microbatches"] == 16 and training["num_tokens_per_microbatch_per_dp_rank"] == 2 * 2048
    assert training["num_tokens_per_train_step"] == 64 * 2048 and training["max_context_length"] == 2048


def test_torchtitan_starts_with_a_model_that_it_has() -> None:
    files = torchtitan(a_named_job("llama-3.1-405b", 8, precision="fp8"), Layout(data=8, zero=3))
    text = files["torchtitan_config.py"]
    compile(text, "torchtitan_config.py", "exec")
    assert "def planned():" in text and "Float8LinearConverter" in text and "CompileConfig(enable=True)" in text
    assert "def planned():" not in torchtitan(a_job(8), Layout(data=8, zero=3))["torchtitan_config.py"]


def test_a_schedule_that_torchtitan_has_no_name_for_goes_as_csv(tmp_path: Path) -> None:
    for name, chunks, placed in (("zb_h1", 1, "PipelineScheduleMulti"), ("v_half", 2, "ZBVZeroBubble")):
        files = torchtitan(a_job(8), Layout(pipeline=4, data=2, chunks=chunks, zero=3, schedule=name))
        text = files["torchtitan_config.py"]
        found = torchtitan_fields(text, "torchtitan")
        assert found["ParallelismConfig"]["pipeline_parallel_schedule"] == placed
        assert 'with_name("schedule.csv")' in text
        (tmp_path / "schedule.csv").write_text(files["schedule.csv"])
        schedule = read_csv(tmp_path / "schedule.csv")
        assert (schedule.stages, schedule.microbatches) == (4 * chunks, 32) and check(schedule)
    with pytest.raises(ScheduleError, match="in a loop or as a V"):
        torchtitan(a_job(8), Layout(pipeline=4, data=2, zero=3, schedule="chimera"))


def test_deepspeed_multiplies_up_and_says_what_the_program_must_do() -> None:
    layout = Layout(data=8, zero=2, micro_batch=4, offload_optimizer=True, recompute="full")
    found = deepspeed_settings(deepspeed(a_job(8), layout)["ds_config.json"], 8)
    assert found["zero_optimization"]["stage"] == 2
    assert found["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    assert "activation_checkpointing" not in found  # which turns nothing on by itself
    assert "gradient_checkpointing_enable" in deepspeed_code(layout)[0]
    assert "num_stages=4, activation_checkpoint_interval=1" in deepspeed_code(Layout(pipeline=4, recompute="full"))[0]
    assert deepspeed_code(Layout(data=8)) == []


def test_accelerate() -> None:
    layout = Layout(data=16, zero=3, micro_batch=2, recompute="full")
    found = accelerate_keys(accelerate(a_job(16), layout)["fsdp.yaml"])
    assert (found["num_processes"], found["num_machines"]) == (16, 2)
    own = found["fsdp_config"]
    assert own["fsdp_reshard_after_forward"] is True and own["fsdp_activation_checkpointing"] is True
    code = exported(a_job(16), layout).code["accelerate"]
    assert "batch_size=2" in code[0] and "gradient_accumulation_steps=2" in code[1]


def test_galvatron_has_a_value_for_each_layer() -> None:
    layout = Layout(tensor=2, pipeline=4, data=1, zero=3, recompute="full", recompute_layers=2)
    found = galvatron_settings(galvatron(a_job(8), layout)["galvatron.json"], LAYERS)
    assert found["checkpoint"] == ([1] * 2 + [0] * 4) * 4 and found["vocab_sdp"] == found["embed_sdp"] == 1
    assert found["pp_division"] == [6] * 4 and found["pipeline_type"] == "pipedream_flush" and found["chunks"] == 64


def megatron_by_shape(job: Job, layout: Layout) -> object:
    return megatron(job, layout, by_shape(job.model))


@pytest.mark.parametrize(
    ("export", "layout", "message"),
    [
        (megatron_by_shape, Layout(pipeline=4, data=2, schedule="zb_h1"), "has no schedule zb_h1; it has one_f_one_b"),
        (megatron_by_shape, Layout(data=8, offload_activations=0.5), "offload_activations 0 can be"),
        (megatron_by_shape, Layout(pipeline=4, data=2, zero=3), "Megatron-LM's pipelines take zero 0 or 1"),
        (megatron_by_shape, Layout(data=8, zero=3, offload_optimizer=True), "moves states of zero 1 to the host"),
        (torchtitan, Layout(data=8, zero=1), "take zero 0, 2 or 3"),
        (torchtitan, Layout(tensor=8, data=1, zero=3), "must divide the 4 key-value heads"),
        (
            torchtitan,
            Layout(data=8, zero=3, recompute="full", recompute_layers=3),
            "all layers or none, not 3 of the 24",
        ),
        (torchtitan, Layout(data=8, zero=0, expert=4), "expert 4 must divide sharded data"),
        (deepspeed, Layout(pipeline=4, data=2, zero=3), "take zero 0 or 1; this layout has 3"),
        (deepspeed, Layout(data=4, context=2), "no context or expert ranks"),
        (deepspeed, Layout(tensor=2, data=4), "does not cut norms along the sequence"),
        (accelerate, Layout(tensor=2, data=4, zero=3), "data ranks alone"),
        (accelerate, Layout(data=8, zero=0), "this layout has zero 0"),
        (galvatron, Layout(pipeline=4, data=2, schedule="zb_h1"), "Galvatron has no schedule zb_h1; it has gpipe"),
        (galvatron, Layout(data=8, offload_optimizer=True), "keeps everything on the devices"),
    ],
)
def test_what_a_trainer_cannot_run_is_refused(export: Any, layout: Layout, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        export(a_job(8), layout)


def test_what_a_trainer_cannot_state_of_the_model_is_refused() -> None:
    tied = a_job(8, tied=True)
    with pytest.raises(ScenarioError, match="no pipeline for tied embeddings"):
        torchtitan(tied, Layout(pipeline=2, data=4, zero=0))
    with pytest.raises(ScenarioError, match="is written for bf16, not fp8"):
        accelerate(a_named_job("llama-3.1-8b", 8, precision="fp8"), Layout(data=8, zero=3))
    found = exported(a_named_job("gemma-2-9b", 8), Layout(data=8, zero=3), lambda: architecture("gemma-2-9b"))
    assert "its norms and positions are not known" in found.refused["megatron"]


def test_recomputation_by_operation_is_stated_or_refused() -> None:
    again = Layout(tensor=2, pipeline=4, data=2, recompute="operations")
    dense = replace(again, operations=("norm", "attention"))
    assert arguments(a_job(16), dense)["recompute-modules"] == ["core_attn", "layernorm"]
    mixed = a_job(16, experts=8, active=2)
    assert arguments(mixed, again)["recompute-modules"] == ["layernorm", "moe_act"]
    narrow = arguments(replace(mixed, precision="fp8"), replace(again, operations=("activation",)))
    assert (narrow["recompute-modules"], narrow["fp8-recipe"]) == (["moe_act"], "tensorwise")
    alternate = Layout(data=8, zero=3, recompute="operations", operations=ALTERNATE)
    assert "activation_checkpoint = SelectiveAC.Config()" in torchtitan(a_job(8), alternate)["torchtitan_config.py"]
    for export, layout, message in (
        (megatron_by_shape, again, "recomputes activation functions of experts"),
        (megatron_by_shape, replace(again, operations=("products",)), "recomputes no single products"),
        (torchtitan, replace(alternate, operations=("norm",)), "norm\\+activation\\+products, not norm; take one"),
        (torchtitan, replace(alternate, recompute="selective"), "not selective; take one"),
        (deepspeed, alternate, "recomputes whole layers, not norm\\+activation\\+products; take none or full"),
        (accelerate, alternate, "recomputes whole layers"),
        (galvatron, alternate, "recomputes whole layers"),
    ):
        with pytest.raises(ScenarioError, match=message):
            export(a_job(layout.tensor * layout.pipeline * layout.data), layout)


def test_all_that_can_have_files_and_the_others_say_why() -> None:
    found = exported(a_job(8), Layout(data=8, zero=3, micro_batch=2))
    assert set(found.files) == {
        "torchtitan_config.py", "torchtitan_main_config.py", "megatron.args", "megatron.sh", "ds_config.json",
        "fsdp.yaml", "galvatron.json",
    }  # fmt: skip
    assert not found.refused
    found = exported(a_job(8), Layout(pipeline=4, data=2, schedule="zb_h2"))
    assert not found.files and len(found.refused) == 6
