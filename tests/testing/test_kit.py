"""The kit as a package: light to import, its names in one place, its invariants awake."""

from __future__ import annotations

import subprocess
import sys

import pytest

import poise.testing
from poise.core.engine.replica import Replica
from poise.testing import a_lane, a_request, check_replica

HEAVY = ("pytest", "hypothesis", "numpy", "polars", "pydantic")


@pytest.mark.parametrize("what", ["*", "check_router, check_batcher"])
def test_nothing_heavy_is_imported(what: str) -> None:
    code = f"from poise.testing import {what}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_kit_loads_none_of_its_files() -> None:
    code = "import poise.testing, sys\nprint([name for name in sys.modules if name.startswith('poise.testing.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_is_there() -> None:
    for name in poise.testing.__all__:
        assert getattr(poise.testing, name).__name__ == name
    assert set(poise.testing.__all__) <= set(dir(poise.testing))


def test_a_name_that_is_not_there_is_reported() -> None:
    with pytest.raises(AttributeError, match=r"'poise.testing' has no attribute 'check_rooter'; it has .*check_router"):
        poise.testing.check_rooter  # noqa: B018


def a_full_replica() -> Replica:
    lane = a_lane(
        waiting=[a_request(id=5)],
        prefilling=[(a_request(id=3), 64)],
        decoding=[(a_request(id=1), 1), (a_request(id=2), 7)],
    )
    lane.until = 0  # to be asked now
    return lane.replica


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        ("replica.running += 1", "5 running, lanes say 4|4 running, lanes say 3"),
        ("replica.queued_tokens -= 1", "queued tokens, sequences say"),
        ("replica.pool.explicit += 1", "explicit private blocks, sequences say"),
        ("replica.pool.held += 1", "held"),
        ("replica.pool.cached += 1", "cached"),
        ("replica.waiting.clear()", None),
        ("replica.lanes[0].group.offsets += 1", None),
        ("replica.lanes[0].until = -5", "ended in the past"),
    ],
)
def test_check_replica_notices_what_does_not_balance(spoil: str, what: str | None) -> None:
    replica = a_full_replica()
    check_replica(replica, 0)
    exec(spoil, {"replica": replica})
    with pytest.raises(AssertionError, match=what):
        check_replica(replica, 0)
