"""Other trainers' settings: read back, they are the layout; what a trainer cannot run is refused by name."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from poise.catalogue.devices import device
from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.job import Job, shape
from poise.cost.training.layout import Layout
from poise.pipeline import check
from poise.pipeline.csv import read_csv
from poise.plan.training.exports import exported
from poise.plan.training.exports.accelerate import accelerate
from poise.plan.training.exports.deepspeed import deepspeed
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.exports.megatron import megatron, pipeline_layout
from poise.plan.training.exports.torchtitan import torchtitan

LAYERS = 24


def a_job(devices: int, batch: int = 64, **more: Any) -> Job:
    model = shape(LAYERS, 1024, 16, kv_heads=4, gated=True, tied=False, **more)
    return Job(model, device("H100"), devices, 2048, batch)


DEEP = Layout(tensor=2, pipeline=4, data=2, micro_batch=2, recompute="selective")


def arguments(text: str) -> dict[str, str]:
    rows = [line[2:].partition(" ") for line in text.splitlines()]
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: value.strip('"') for name, _, value in rows}


def layers_of(text: str) -> list[int]:
    """Megatron-LM's reading of a pipeline layout: `(x)*n` is x n times, `t*n` likewise, `|` parts stages."""
    text = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), text.replace(",", ""))
    text = re.sub(r"([Etm L])\*(\d+)", lambda found: found[1] * int(found[2]), text)
    assert text.count("E") == text.count("L") == 1 and text[0] == "E" and text[-1] == "L"
    return [stage.count("t") for stage in text.split("|")]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=8))
def test_megatron_places_the_layers_that_the_layout_does(counts: list[int]) -> None:
    job = Job(shape(max(1, sum(counts)), 64, 4), device("H100"), len(counts), 128, 8)
    split = tuple(counts) if sum(counts) else (1, *counts[1:])
    assert layers_of(pipeline_layout(job, Layout(pipeline=len(counts), split=split))) == list(split)


def test_megatron() -> None:
    found = arguments(megatron(a_job(16), DEEP)["megatron.args"])
    sizes = [int(found[f"{name}-model-parallel-size"]) for name in ("tensor", "pipeline")]
    assert sizes == [2, 4] and layers_of(found["pipeline-model-parallel-layout"]) == [6] * 4
    assert (found["micro-batch-size"], found["global-batch-size"]) == ("2", "64")
    assert found["recompute-modules"] == "core_attn" and found["num-query-groups"] == "4"
    assert {"use-distributed-optimizer", "sequence-parallel", "bf16", "swiglu"} <= set(found)
    full = Layout(data=8, zero=3, recompute="full", recompute_layers=3, offload_optimizer=True)
    found = arguments(megatron(a_job(8), full)["megatron.args"])
    assert found["data-parallel-sharding-strategy"] == "optim_grads_params"
    assert (found["recompute-method"], found["recompute-num-layers"]) == ("block", "3")
    experts = Layout(data=8, expert=4, expert_tensor=2, zero=0)
    found = arguments(megatron(a_job(8, experts=8, active=2), experts)["megatron.args"])
    assert (found["expert-model-parallel-size"], found["expert-tensor-parallel-size"]) == ("4", "2")
    assert found["moe-router-topk"] == "2" and "use-distributed-optimizer" not in found


def test_torchtitan_is_built_by_the_real_package(tmp_path: Path) -> None:
    files = torchtitan(a_job(16), Layout(tensor=2, pipeline=4, data=2, zero=3, micro_batch=2, recompute="full"))
    text = files["torchtitan_config.py"]
    assert "'layers.23', 'norm', 'lm_head'" in text and "pipeline_parallel_schedule='1F1B'" in text
    compile(text, "torchtitan_config.py", "exec")
    if importlib.util.find_spec("torchtitan") is None:
        pytest.skip("torchtitan is not installed; `pip install torchtitan==0.3.0` to read the file back by it")
    spec = importlib.util.spec_from_file_location("torchtitan_config", tmp_path / "torchtitan_config.py")
    (tmp_path / "torchtitan_config.py").write_text(text)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ranks, training = module.parallelism, module.training
    assert (ranks.tensor_parallel_degree, ranks.pipeline_parallel_degree, ranks.data_parallel_shard_degree) == (2, 4, 2)
    assert [len(each) for each in ranks.module_fqns_per_model_part] == [7, 6, 6, 8]
    assert (training.local_batch_size, training.global_batch_size, training.seq_len) == (32, 64, 2048)
    sys.modules.pop("torchtitan_config", None)


def test_a_schedule_that_torchtitan_has_no_name_for_goes_as_csv(tmp_path: Path) -> None:
    for name, chunks, placed in (("zb_h1", 1, "PipelineScheduleMulti"), ("v_half", 2, "ZBVZeroBubble")):
        files = torchtitan(a_job(8), Layout(pipeline=4, data=2, chunks=chunks, zero=3, schedule=name))
        assert f"pipeline_parallel_schedule='{placed}'" in files["torchtitan_config.py"]
        (tmp_path / "schedule.csv").write_text(files["schedule.csv"])
        schedule = read_csv(tmp_path / "schedule.csv")
        assert (schedule.stages, schedule.microbatches) == (4 * chunks, 32) and check(schedule)
    with pytest.raises(ScheduleError, match="in a loop or as a V"):
        torchtitan(a_job(8), Layout(pipeline=4, data=2, zero=3, schedule="chimera"))


def test_deepspeed_multiplies_up() -> None:
    found = json.loads(
        deepspeed(a_job(8), Layout(data=8, zero=2, micro_batch=4, offload_optimizer=True))["ds_config.json"]
    )
    steps = found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] * 8
    assert steps == found["train_batch_size"] == 64
    assert (
        found["zero_optimization"]["stage"] == 2 and found["zero_optimization"]["offload_optimizer"]["device"] == "cpu"
    )


def test_accelerate() -> None:
    text = accelerate(a_job(16), Layout(data=16, zero=3, micro_batch=2, recompute="full"))["fsdp.yaml"]
    found = YAML(typ="safe").load(text)
    assert (found["num_processes"], found["num_machines"], found["gradient_accumulation_steps"]) == (16, 2, 2)
    own = found["fsdp_config"]
    assert own["fsdp_reshard_after_forward"] is True and own["fsdp_activation_checkpointing"] is True


def test_galvatron_has_a_value_for_each_layer() -> None:
    layout = Layout(tensor=2, pipeline=4, data=1, zero=3, recompute="full", recompute_layers=2)
    found = json.loads(galvatron(a_job(8), layout)["galvatron.json"])
    for name in ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "use_sp", "checkpoint"):
        assert len(found[name].split(",")) == LAYERS
    assert found["checkpoint"].split(",") == (["1"] * 2 + ["0"] * 4) * 4
    assert found["pp_division"] == "6,6,6,6" and found["pipeline_type"] == "pipedream_flush" and found["chunks"] == 64


@pytest.mark.parametrize(
    ("export", "layout", "message"),
    [
        (
            megatron,
            Layout(pipeline=4, data=2, schedule="zb_h1"),
            "Megatron-LM has no schedule zb_h1; it has one_f_one_b",
        ),
        (megatron, Layout(data=8, offload_activations=0.5), "offload_activations 0 can be"),
        (torchtitan, Layout(data=8, zero=1), "take zero 0, 2 or 3"),
        (deepspeed, Layout(pipeline=4, data=2, zero=3), "take zero 0 or 1; this layout has 3"),
        (deepspeed, Layout(data=4, context=2), "no context or expert ranks"),
        (accelerate, Layout(tensor=2, data=4, zero=3), "data ranks alone"),
        (accelerate, Layout(data=8, zero=0), "this layout has zero 0"),
        (galvatron, Layout(pipeline=4, data=2, schedule="zb_h1"), "Galvatron has no schedule zb_h1; it has gpipe"),
    ],
)
def test_what_a_trainer_cannot_run_is_refused(export: Any, layout: Layout, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        export(a_job(8), layout)


def test_all_that_can_have_files_and_the_others_say_why() -> None:
    found = exported(a_job(8), Layout(data=8, zero=3, micro_batch=2))
    assert set(found.files) == {
        "torchtitan_config.py",
        "megatron.args",
        "ds_config.json",
        "fsdp.yaml",
        "galvatron.json",
    }
    assert not found.refused
    found = exported(a_job(8), Layout(pipeline=4, data=2, schedule="zb_h2"))
    assert not found.files and set(found.refused) == {"torchtitan", "megatron", "deepspeed", "accelerate", "galvatron"}
