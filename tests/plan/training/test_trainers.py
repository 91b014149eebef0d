"""What is searched for a trainer can be written for it, and read as strictly as the trainer reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from poise.catalogue.architecture import by_shape
from poise.catalogue.devices import device
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.cost.training import Job, shape
from poise.cost.training.layout import Layout
from poise.cost.training.schedules import SCHEDULES
from poise.plan.training.exports import EXPORTS
from poise.plan.training.rows import slower
from poise.plan.training.search import TrainSearchResult, search
from poise.plan.training.space import Space
from poise.plan.training.trainers import TRAINERS, restricted
from tests.depth import examples
from tests.plan.training.exports.checker import (
    accelerate_keys,
    deepspeed_settings,
    galvatron_settings,
    megatron_args,
    torchtitan_fields,
)

READ: dict[str, Callable[[Job, Layout, dict[str, str]], object]] = {
    "torchtitan": lambda _, __, files: torchtitan_fields(files["torchtitan_config.py"], "torchtitan"),
    "torchtitan-main": lambda _, __, files: torchtitan_fields(files["torchtitan_main_config.py"], "torchtitan-main"),
    "megatron": lambda _, __, files: megatron_args(files["megatron.args"]),
    "deepspeed": lambda _, layout, files: deepspeed_settings(files["ds_config.json"], layout.data),
    "accelerate": lambda _, __, files: accelerate_keys(files["fsdp.yaml"]),
    "galvatron": lambda job, _, files: galvatron_settings(files["galvatron.json"], job.model.layers),
}


def test_each_trainer_can_be_searched_for() -> None:
    assert list(TRAINERS) == list(EXPORTS) == list(READ)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    heads = draw(st.sampled_from([4, 6, 12]))
    experts: dict[str, Any] = draw(st.sampled_from([{}, {"experts": 8, "active": 2, "expert_ffn": 256}]))
    model = shape(
        draw(st.integers(3, 13)), 64 * heads, heads, kv_heads=draw(st.sampled_from([1, 2, heads])), ffn=1024,
        vocab=draw(st.sampled_from([1000, 50257])), gated=draw(st.booleans()), tied=draw(st.booleans()), **experts,
    )  # fmt: skip
    return Job(model, device("H100"), draw(st.sampled_from([1, 6, 8, 16])), draw(st.sampled_from([192, 2048])), 48)


@pytest.mark.deep
@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=examples(32))
@given(job=jobs(), offload=st.booleans())
def test_every_layout_found_has_settings_that_its_trainer_takes(name: str, job: Job, offload: bool) -> None:
    offload = offload and name != "galvatron"
    space = Space(zero=(0, 1, 2, 3), schedule=SCHEDULES, context=(1, 2), offload=offload)
    try:
        found = search(job, restricted(space, name))
    except ScenarioError as error:  # nothing can be laid out, as 16 data ranks of a batch of 48
        assert "no layout of" in str(error) or "can be stated" in str(error)
        event("no layout")
        return
    event("found" if found.best else "nothing fits")
    for each in (*found.best, *found.alternatives, *found.frontier):
        READ[name](job, each.layout, EXPORTS[name](job, each.layout, partial(by_shape, job.model)))


def test_a_trainer_that_runs_none_of_what_fits_says_why() -> None:
    job = Job(shape(4, 256, 4, kv_heads=1), device("H100"), 8, 2048, 8)
    with pytest.raises(
        ScenarioError, match=r"--for torchtitan: none of .* can be stated: .* must divide the 1 key-value"
    ):
        search(job, restricted(Space(zero=(0, 2, 3), tensor=(4,)), "torchtitan"))


PLAN = ["train", "plan", "--devices", "H100", "--gpus", "8", "--batch", "32", "--seq", "2048"]


def test_a_model_that_megatron_cannot_be_given_is_refused_before_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "gemma-2-2b", "--for", "megatron"]) == 2
    error = capsys.readouterr().err
    assert "--for megatron: google/gemma-2-2b: model_type 'gemma2': its norms and positions are not known" in error
    assert main([*PLAN, "llama-3.2-1b", "--for", "galvatron", "--offload"]) == 2
    assert "--for galvatron: does not take --offload; leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("name", TRAINERS)
def test_out_has_the_trainers_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "llama-3.2-1b", "--for", name, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    files = {
        file.name: file.read_text() for file in tmp_path.iterdir() if file.suffix in (".py", ".args", ".json", ".yaml")
    }
    assert f"not for {name}:" not in out
    if name in ("megatron", "accelerate"):
        READ[name](Job(shape(16, 2048, 32), device("H100"), 8, 2048, 32), Layout(data=8), files)
    if name == "accelerate":
        assert "in the program for accelerate: give the DataLoader batch_size=" in out


def test_what_is_faster_is_not_called_slower() -> None:
    job = Job(shape(4, 256, 4), device("H100"), 8, 2048, 8)
    found: TrainSearchResult = search(job)
    first, last = found.best[0], found.best[-1]
    assert slower(last, first).endswith("% slower")
    if last.seconds > first.seconds * 1.001:
        assert slower(first, last).endswith("% faster") and not slower(first, last).startswith("-")
