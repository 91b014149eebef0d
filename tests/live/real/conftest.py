"""The engines of all tests here, started once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cached import Unavailable
from tests.live.real.engines import LIMIT_S, Pair
from tests.live.real.install import installed
from tests.live.real.model import make
from tests.live.real.served import Served, in_front_of


@pytest.fixture(scope="package")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    until = time.monotonic() + LIMIT_S
    folder = tmp_path_factory.mktemp("real")
    try:
        pair = Pair(installed(), make(folder / "model"), folder, until)
    except Unavailable as why:
        pytest.skip(str(why))
    try:
        pair.start()
        yield pair
    except Unavailable as why:
        pytest.skip(str(why))
    finally:
        pair.stop()


@pytest.fixture
def pair(started: Pair) -> Pair:
    """Two engines that run, with empty caches."""
    try:
        started.start()
    except Unavailable as why:
        pytest.skip(str(why))
    started.clear()
    return started


@pytest.fixture
def served(pair: Pair, tmp_path: Path) -> Iterator[Served]:
    """`poise serve` before the two, which knows their caches by their KV events."""
    with in_front_of(pair, tmp_path) as served:
        yield served
