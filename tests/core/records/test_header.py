"""What a recording says first: written as plain data, read back to the same objects, refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import TraceError
from poise.core.records.header import belief_of, header, replicas_of
from poise.core.spec import Belief, ReplicaSpec
from tests.core.records.test_trace import specs

beliefs = st.builds(
    Belief, st.floats(0, 10), st.floats(0, 1), st.booleans(), st.sampled_from(["own", "reported"]), st.integers(1, 9)
)


@given(st.lists(specs, max_size=3), beliefs)
def test_what_is_written_is_read_back(replicas: list[ReplicaSpec], belief: Belief) -> None:
    result = json.loads(json.dumps(header(replicas, belief, {"router": {"pull": {"slots": 3}}}, seed=5, poise="1")))
    assert replicas_of(result) == replicas
    assert belief_of(result) == belief
    assert (result["seed"], result["poise"], result["policies"]) == (5, "1", {"router": {"pull": {"slots": 3}}})


def test_fields_that_came_later_take_their_defaults() -> None:
    assert replicas_of({"replicas": [{"blocks": 3}]}) == [ReplicaSpec(blocks=3)]
    assert belief_of({"belief": {}}) == Belief()


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(TraceError, match="the header has no replicas; record with"):
        replicas_of({})
    with pytest.raises(TraceError, match=r"the header's replicas cannot be read \(.*'colour'\); read it with"):
        replicas_of({"replicas": [{"colour": 3}]})
