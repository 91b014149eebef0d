"""Every rule of `Workload.check` is broken once, on a workload that is otherwise sound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from poise.core.errors import TraceError
from poise.core.units import NEVER
from poise.workload import Prefixes, Workload
from tests.workload.trees import Tokenized, joined, prefix_trees


def sound() -> Workload:
    return Workload(
        arrival=np.array([0, 5, 5], dtype=np.int64),
        prompt=np.array([100, 200, 300], dtype=np.int32),
        output=np.array([10, 20, 30], dtype=np.int32),
        prefixes=Prefixes(
            offsets=np.array([0, 1, 3, 5], dtype=np.int64),
            ids=np.array([0, 0, 1, 0, 2], dtype=np.int64),
            ends=np.array([64, 64, 128, 64, 110], dtype=np.int32),
            output=np.array([2, -1, -1], dtype=np.int64),
        ),
        after_offsets=np.array([0, 0, 1, 2], dtype=np.int64),
        after_ids=np.array([0, 1], dtype=np.int64),
        delay=np.zeros(3, dtype=np.int64),
        after_delay=np.array([0, 7], dtype=np.int64),
        max_tokens=np.array([0, 20, 64], dtype=np.int32),
        model=np.array([0, 1, 0], dtype=np.int16),
        models=("a", "b"),
        session=np.array([0, 0, -1], dtype=np.int32),
    )


def put(name: str, row: int, value: int) -> Callable[[Workload], None]:
    def change(workload: Workload) -> None:
        getattr(workload, name)[row] = value

    return change


def shorter(name: str) -> Callable[[Workload], None]:
    return lambda workload: setattr(workload, name, getattr(workload, name)[:-1])


def put_prefix(name: str, at: int, value: int) -> Callable[[Workload], None]:
    def change(workload: Workload) -> None:
        getattr(workload.prefixes, name)[at] = value

    return change


BROKEN = {
    "row 0: arrival is -1": put("arrival", 0, -1),
    "row 2: arrival is 4; rows must be sorted": put("arrival", 2, 4),
    f"row 2: arrival is {NEVER}": put("arrival", 2, NEVER),
    "row 1: prompt is 0": put("prompt", 1, 0),
    "row 1: output is -3": put("output", 1, -3),
    "row 1: output is 21; the true output cannot exceed max_tokens": put("output", 1, 21),
    "row 0: model is 2": put("model", 0, 2),
    "row 0: session is -2": put("session", 0, -2),
    "row 2: delay is -1": put("delay", 2, -1),
    "row 1: after is 1; a predecessor must be an earlier row": put("after_ids", 0, 1),
    "row 2: after is 2": put("after_ids", 1, 2),
    "row 2: after is -1": put("after_ids", 1, -1),
    "row 2: after_delay is -7; it must be at least 0": put("after_delay", 1, -7),
    "after_delay has 1 entries; it needs one for each of 2 joins": shorter("after_delay"),
    "after_offsets must be 4 ascending numbers": put("after_offsets", 1, 2),
    "prefixes.offsets must be": put_prefix("offsets", 3, 4),
    "ids must be 0 or more": put_prefix("ids", 0, -1),
    "row 1: a prefix extent has 60; the ends of a prompt's extents must ascend": put_prefix("ends", 2, 60),
    "row 1: a prefix extent has 64; the ends of a prompt's extents must ascend": put_prefix("ends", 2, 64),
    "row 2: a prefix extent has 301; an extent cannot end behind its prompt": put_prefix("ends", 4, 301),
    "equal ids must end after equally many tokens": put_prefix("ends", 4, 109),
    "row 0: a prefix extent has 2; equal ids must follow equal ids": put_prefix("ids", 3, 3),
}


def test_a_sound_workload_passes() -> None:
    workload = sound()
    assert workload.check() is workload


@pytest.mark.parametrize("message", BROKEN)
def test_each_broken_rule_is_named(message: str) -> None:
    workload = sound()
    BROKEN[message](workload)
    with pytest.raises(TraceError) as caught:
        workload.check()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["arrival", "output", "delay", "session"])
def test_columns_of_another_length_are_refused(name: str) -> None:
    workload = sound()
    setattr(workload, name, getattr(workload, name)[:2])
    with pytest.raises(TraceError, match=f"{name} has shape"):
        workload.check()


def test_an_empty_workload_is_refused() -> None:
    none = np.zeros(0, dtype=np.int32)
    with pytest.raises(TraceError, match="no requests"):
        Workload(none.astype(np.int64), none, none).check()


@given(prefix_trees())
def test_trees_keep_the_rules(tree: Tokenized) -> None:
    tree.workload.check()


@given(joined())
def test_joins_keep_the_rules(workload: Workload) -> None:
    workload.check()
