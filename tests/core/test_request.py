"""The life of a request as one table: every phase is reachable, the end is final, wrong moves tell the story."""

from __future__ import annotations

from itertools import product

import pytest

from poise.core.errors import InvalidTransition
from poise.core.request import TRANSITIONS, Phase, RequestView, Sequence

PHASES = range(len(Phase.NAMES))


def a_sequence(phase: int) -> Sequence:
    sequence = Sequence(RequestView(7, 0, 12), 5)
    sequence.phase = phase
    return sequence


def reachable(start: int) -> set[int]:
    found, ahead = {start}, [start]
    while ahead:
        new = TRANSITIONS[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def test_the_table_names_every_phase() -> None:
    assert set(TRANSITIONS) == set(PHASES)
    assert set().union(*TRANSITIONS.values()) <= set(PHASES)


def test_every_phase_is_reachable_from_the_gateway() -> None:
    assert reachable(Phase.HELD) == set(PHASES)


def test_the_end_is_final_and_can_be_reached_from_everywhere() -> None:
    assert not TRANSITIONS[Phase.ENDED]
    assert all(Phase.ENDED in reachable(phase) for phase in PHASES)


@pytest.mark.parametrize(("before", "after"), list(product(PHASES, PHASES)))
def test_a_sequence_moves_just_where_the_table_says(before: int, after: int) -> None:
    sequence = a_sequence(before)
    if after in TRANSITIONS[before]:
        sequence.move(after)
        assert sequence.phase == after
        return
    with pytest.raises(InvalidTransition) as raised:
        sequence.move(after)
    assert sequence.phase == before
    message = str(raised.value)
    assert f"request 7: {Phase.NAMES[before]} → {Phase.NAMES[after]}" in message
    assert repr(sequence) in message


def test_a_sequence_needs_its_prompt_and_what_it_made() -> None:
    sequence = Sequence(RequestView(3, 0, 12), output_tokens=9, produced=4)
    assert (sequence.id, sequence.need, sequence.phase) == (3, 16, Phase.WAITING)


def test_the_true_output_length_is_not_on_the_view() -> None:
    assert not any("output" in name for name in RequestView._fields)
