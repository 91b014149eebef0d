"""Batches that start together, and that nobody joins."""

from __future__ import annotations

import pytest

from poise.core.action import ALL, NONE, UNTIL_CHANGE, Batch, Entry
from poise.core.engine.replica import Replica
from poise.core.request import RequestView
from poise.core.spec import Engine
from poise.core.units import ps
from poise.policies import Policies
from poise.policies.batch.static_batch import StaticBatch
from poise.testing import a_lane
from poise.testing.cost import LinearCost
from poise.testing.solo import Client, drive
from tests.policies.batch.test_chunked import decoding, prompts


def test_a_batch_starts_with_whoever_waits() -> None:
    assert StaticBatch(2).batch(a_lane(waiting=prompts(5, 6, 7))) == Batch((Entry(0, 5), Entry(1, 6)), NONE)


def test_no_request_joins_while_it_runs() -> None:
    assert StaticBatch().batch(a_lane(waiting=prompts(5), decoding=decoding(1))) == Batch((), ALL, UNTIL_CHANGE)


def test_the_next_batch_waits_for_the_last_of_this_one() -> None:
    """The first ends its second token at 2 s, the second its fifth at 5 s; the third is prompted then."""
    replica = Replica(Engine(), LinearCost(step_s=1.0), 100, Policies(batcher=StaticBatch(2)), one_step=False)
    clients = [Client(RequestView(number, 0, 10), tokens) for number, tokens in enumerate((2, 5, 1))]
    assert (ps(6.0), "first token", 2) in drive(replica, clients)


def test_parameters() -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        StaticBatch(0)
