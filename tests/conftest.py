"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

settings.register_profile(
    "poise",
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=[phase for phase in Phase if phase is not Phase.explain],  # which traces every line of every example
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("explore", settings.get_profile("poise"), derandomize=False, max_examples=500)
settings.load_profile("poise")


def pytest_configure() -> None:
    """The examples of a fixed profile follow from the test alone, and an interrupt is one in the background too.

    A shell starts what it sends to the background with interrupts ignored, which all processes of the tests inherit.
    Hypothesis also draws constants from the sources of all modules loaded so far, so the same test would meet other
    examples in a run of its own, on another worker, or after a change elsewhere.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if settings().derandomize:
        nothing = Constants()
        providers._get_local_constants = lambda: nothing


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share what is expensive stay together."""
    from tests.handed import ByFile

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last lines say whether real engines ran."""
    from tests.outside import lines

    yield
    for line in lines(terminalreporter.stats):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def _balanced() -> Iterator[None]:
    """Whatever a test simulates must balance when it ends: requests, tokens and blocks (`testing.check_world`)."""
    from poise.sim.world import World
    from poise.testing import check_world

    close = World._close

    def checked(world: World) -> None:
        if not world.run.interrupted:
            check_world(world)
        close(world)

    World._close = checked  # type: ignore[method-assign]
    yield
    World._close = close  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces and measurements; the test is skipped where it is absent, or fails if it must exist."""
    root = Path(__file__).resolve().parent.parent
    folder = (root / os.environ.get("POISE_DATA", "../shared/data")).resolve()
    if folder.is_dir():
        return folder
    if os.environ.get("POISE_REQUIRE_DATA") == "1":
        pytest.fail(f"POISE_REQUIRE_DATA is 1, but there is no folder of data at {folder}")
    pytest.skip(f"no folder of data at {folder}; set POISE_DATA to one")
