"""A plan over clusters of unlike NICs: stages go across them, and every layer goes somewhere."""

from __future__ import annotations

import json

import pytest

from poise.catalogue.devices import device
from poise.cli import main
from poise.cost.training import Job, shape
from poise.plan.training.sites import joined, read_sites
from poise.plan.training.space import Space

WORDS = (
    "train", "plan", "facebook/opt-13b", "--devices", "H100", "--gpus", "16", "--batch", "64", "--seq", "2048",
    "--zero", "1", "--schedules", "one_f_one_b", "--recompute", "none",
)  # fmt: skip


def test_two_clusters_are_faster_than_one_and_the_faster_one_has_more_layers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS, "--also", "A100:16@200", "--between", "10", "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)["clusters"]
    layers = printed["found"]["layers"]
    assert sum(layers) == 40 and layers[0] > layers[1]
    assert (
        printed["found"]["pipelined_s"] < printed["alone_s"]
        and printed["found"]["pipelined_s"] < printed["found"]["flat_s"]
    )


def test_equal_clusters_share_layers_and_a_thin_link_costs_time() -> None:
    job = Job(shape(24, 2048, 16), device("A100"), 8, 2048, 64)
    space = Space(schedule=("one_f_one_b",), zero=(1,), recompute=("none",))
    sites = read_sites(job, ["A100:8"])
    wide, thin = (joined(job, space, sites, gbit) for gbit in (100.0, 0.1))
    assert wide.found.layers == (12, 12)
    assert wide.found.pipelined_s < thin.found.pipelined_s


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--also", "A100"], "'A100': give a device, how many, and Gbit/s of each"),
        (["--also", "A100:16@200"], "--between 0: give the Gbit/s"),
        (["--also", "A100:1@200", "--between", "10"], "holds no whole number of pipeline ranks"),
    ],
)
def test_what_cannot_be_joined(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert expected in capsys.readouterr().err
