"""Groups of their own for weights, gradients and states: over all ranks they are ZeRO-3, and smaller ones move less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from poise.catalogue.devices import device
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.frontier import Sharding
from poise.plan.training.levels import groups, levelled, sharded, stepped
from poise.plan.training.space import Space

JOB = Job(shape(24, 4096, 32), replace(device("A100"), scaleout_bw=5e9), 32, 2048, 1024)
LAYOUT = Layout(data=32, zero=3, micro_batch=1)
ALL = Sharding(32, 32, 32, 2.0, float(LAYOUT.gradient_bytes))


@pytest.mark.parametrize("layout", [LAYOUT, replace(LAYOUT, tensor=4, data=8), replace(LAYOUT, recompute="full")])
def test_over_all_ranks_it_is_zero_3(layout: Layout) -> None:
    whole = replace(ALL, weights=layout.data, gradients=layout.data, states=layout.data)
    found, known = sharded(JOB, layout, whole), predict(JOB, layout)
    assert found.seconds == pytest.approx(known.seconds) and found.memory == pytest.approx(known.memory)
    assert found.mfu == pytest.approx(known.mfu)


def test_smaller_groups_take_less_time_and_more_memory() -> None:
    found = [sharded(JOB, LAYOUT, replace(ALL, weights=own, gradients=8)) for own in (8, 4, 2)]
    assert sharded(JOB, LAYOUT, ALL).seconds > found[0].seconds > found[1].seconds > found[2].seconds
    assert sharded(JOB, LAYOUT, ALL).memory < found[0].memory < found[1].memory < found[2].memory
    more = found[2].classes["weights"] * (32 / 2 - 1) + found[2].classes["gradients"] * (32 / 8 - 1)
    assert found[2].memory - predict(JOB, LAYOUT).memory == pytest.approx(more, rel=0.05)  # and lost fragments


def test_a_faster_link_between_neighbours_helps_pairs_alone() -> None:
    pair, server = replace(ALL, weights=2, gradients=8), replace(ALL, weights=8, gradients=8)
    slow = replace(JOB, device=replace(JOB.device, scaleup_bw=20e9))
    assert sharded(slow, LAYOUT, pair, 200e9).seconds < sharded(slow, LAYOUT, pair).seconds
    assert sharded(slow, LAYOUT, server, 200e9).seconds == sharded(slow, LAYOUT, server).seconds


def test_three_levels_beat_what_they_refine() -> None:
    found = [stepped(JOB, LAYOUT, way).seconds for way in ("three levels", "zero++", "zero 3")]
    assert found == sorted(found)


def test_the_best_groups_are_those_of_trying_all() -> None:
    space = Space(tensor=(1,), micro_batch=(1,), recompute=("none",))
    found = levelled(JOB, space)
    tried = [each for cut in groups(found.layout, JOB) if (each := sharded(JOB, found.layout, cut)).safe(JOB)]
    assert found.seconds == min(each.seconds for each in tried) <= found.whole_s
    cut = found.sharding
    assert cut.states % cut.gradients == 0 == cut.gradients % cut.weights
    assert f"weights over {cut.weights} rank" in found.line()


def test_groups_that_a_trainer_states_are_named() -> None:
    found = levelled(JOB, Space(tensor=(1,), micro_batch=(1,), recompute=("none",)))
    whole = replace(found, sharding=replace(found.sharding, weights=8, gradients=32, states=32))
    assert "zero_hpz_partition_size 8" in whole.line()
    for own, stage in ((1, 2), (32, 3)):
        cut = replace(found.sharding, weights=own, gradients=32, states=32)
        assert f"this is ZeRO-{stage}" in replace(found, sharding=cut).line()
    parted = replace(found, sharding=replace(found.sharding, weights=2, gradients=8, states=32))
    assert "`poise train run` shards over all ranks or none" in parted.line()


def test_where_nothing_fits_it_is_reported() -> None:
    with pytest.raises(ScenarioError, match="--levels: no layout"):
        levelled(Job(shape(96, 12288, 96), device("L4"), 2, 2048, 8), Space())


def test_the_command_prints_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "plan", "facebook/opt-13b", "--devices", "A100", "--gpus", "16", "--batch", "32", "--seq", "2048"]
    assert main([*words, "--nic", "25", "--levels", "--json", str(tmp_path / "plan.json")]) == 0
    assert "Sharding in levels" in capsys.readouterr().out
    assert '"levels"' in (tmp_path / "plan.json").read_text()
