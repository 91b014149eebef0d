"""Segments become stages of the least largest cost; names and first weights do not depend on the cut."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from poise.core.errors import ScheduleError
from poise.pipeline.even_cut import even_cut
from poise.runtime.models import build
from poise.runtime.models.cut import cut
from poise.runtime.models.part import load
from poise.runtime.models.read import read
from poise.runtime.models.segment import Segment
from tests.runtime.models.configs import CONFIGS
from tests.runtime.models.truth import batch, made


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_no_cut_has_a_cheaper_dearest_stage(costs: list[int], data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, len(costs)))
    found = even_cut(costs, stages)
    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])] and found[-1][1] == len(costs)
    assert all(first < last for first, last in found)

    def dearest(ends: tuple[int, ...]) -> int:
        edges = (0, *ends, len(costs))
        return max(sum(costs[a:b]) for a, b in pairwise(edges))

    every = combinations(range(1, len(costs)), stages - 1)
    assert dearest(tuple(last for _, last in found[:-1])) == min(map(dearest, every))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_cut_is_the_same_model(name: str) -> None:
    tokens, _, shared = batch(2)
    outputs = []
    for stages in (1, 3, 6):
        x = tokens
        for part in made(CONFIGS[name], stages).parts:
            x = part(x, **shared)
        outputs.append(x)
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("name", CONFIGS)
def test_stages_have_the_names_of_the_model(name: str) -> None:
    model = build(read(CONFIGS[name]))
    expected = {name for name, _ in model.named_parameters()}
    values = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    parts = made(CONFIGS[name], 4).parts
    assert {name for part in parts for name in part.names.values()} == expected
    assert [load(part, values) for part in parts] == [[]] * 4
    tokens, _, shared = batch(2)
    x = tokens
    for part in parts:
        x = part(x, **shared)
    assert torch.equal(x, model.double()(tokens, **shared))
    first = parts[0].names["segments.0." + ("wte.weight" if name == "gpt2" else "tokens.weight")]
    assert load(parts[0], {name: value for name, value in values.items() if name != first}) == [first]


class Mine(nn.Module):
    """A model of one's own, in which one module is used at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = nn.Linear(4, 4)
        self.middle = nn.Linear(4, 4)

    def segments(self) -> list[Segment]:
        return [Segment("in", self.ends), Segment("middle", self.middle), Segment("out", self.ends)]


def test_a_module_of_two_stages_is_copied_and_named_once() -> None:
    model = Mine()
    found = cut(model, 3, 8)
    assert [tie.name for tie in found.ties] == ["ends.weight", "ends.bias"]
    assert [sorted(tie.places) for tie in found.ties] == [[0, 2]] * 2
    assert found.parts[0].segments[0] is model.ends and found.parts[2].segments[0] is not model.ends
    assert sorted(found.parts[2].names.values()) == ["ends.bias", "ends.weight"]
    assert not cut(Mine(), 1, 8).ties


def test_a_model_without_segments_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"Linear has no segments\(\), so it cannot be cut; give it one"):
        cut(nn.Linear(3, 3), stages=2, length=4)  # type: ignore[arg-type]
