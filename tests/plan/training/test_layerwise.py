"""Strategies for each layer: never slower than one for all, within its memory, and written for Galvatron."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from poise.catalogue.devices import device
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.cost.training import Job, predict, shape
from poise.plan.training.exports.galvatron import galvatron
from poise.plan.training.layerwise import layerwise
from poise.plan.training.search import search
from poise.plan.training.space import Space

SPACE = Space(schedule=("one_f_one_b",), zero=(1, 3), recompute=("none", "full"), counted=False)


def test_what_memory_is_left_is_used() -> None:
    """Of a device with little memory some layers are sharded or recomputed, of a large one none."""
    slow = replace(device("A100"), scaleup_bw=5e9)
    known = []
    for gib in (36, 48, 200):
        job = Job(shape(40, 5120, 40), replace(slow, memory_bytes=gib * 2**30), 8, 2048, 64)
        found = layerwise(job, SPACE)
        assert len(found.each) == 40 and found.seconds <= found.uniform_s
        known.append(found)
    assert known[0].seconds >= known[1].seconds >= known[2].seconds
    assert len({*known[1].each}) > 1 and known[1].seconds < known[1].uniform_s


@pytest.mark.parametrize("pipeline", [1, 2, 4])
def test_every_layer_keeps_stages_and_microbatches(pipeline: int) -> None:
    job = Job(shape(24, 4096, 32), device("A100"), 8, 2048, 64)
    found = layerwise(job, replace(SPACE, pipeline=(pipeline,)))
    best = min(predict(job, each.layout).seconds for each in search(job, replace(SPACE, pipeline=(pipeline,))).best)
    assert found.uniform_s <= best * 1.02
    for each in found.each:
        assert each.pipeline == pipeline and each.tensor * each.data * pipeline == 8
        assert each.microbatches(job) == found.base.microbatches(job)
    result = json.loads(galvatron(job, found.base, found.each)["galvatron.json"])
    assert [int(one) for one in result["tp_sizes_enc"].split(",")] == [each.tensor for each in found.each]
    assert result["dp_types_enc"].split(",") == ["1" if each.zero == 3 else "0" for each in found.each]
    assert result["checkpoint"].split(",") == ["1" if each.recompute == "full" else "0" for each in found.each]
    assert result["pp_deg"] == pipeline


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "plan", "facebook/opt-13b", "--devices", "A100", "--gpus", "8", "--batch", "32", "--seq", "2048"]
    words += ["--pipeline", "1", "--layerwise", "--json", str(tmp_path / "told.json"), "--out", str(tmp_path / "plan")]
    assert main(words) == 0
    assert "A strategy for each layer (Galvatron), pp 1" in capsys.readouterr().out
    result = json.loads((tmp_path / "told.json").read_text())["layerwise"]
    written = json.loads((tmp_path / "plan" / "galvatron.json").read_text())
    assert written["tp_sizes_enc"] == ",".join(str(each["tensor"]) for each in result["each"])


def test_what_does_not_fit_is_reported() -> None:
    with pytest.raises(ScenarioError, match="layouts fits"):
        layerwise(Job(shape(96, 12288, 96), device("L4"), 2, 2048, 8), SPACE)
