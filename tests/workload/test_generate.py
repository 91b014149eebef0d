"""Arrivals converge to what was asked for; columns do not disturb one another; equal seeds give equal bytes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError
from poise.core.units import SECOND
from poise.workload import (
    Pairs,
    Workload,
    all_at_once,
    closed,
    constant,
    exponential,
    gamma,
    lognormal,
    poisson,
    sessions,
    shared_prefixes,
    uniform,
)

ROOT = Path(__file__).parents[2]
COLUMNS = ("arrival", "prompt", "output")


# With n gaps the rate errs by cv/√n and the sample cv of a Gamma by less than cv·(1 + cv²)/√n or so; the bands are
# several times as wide, and narrow enough to tell cv 1 from cv 1.2.
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("cv", "requests"), [(0.5, 20_000), (1.0, 20_000), (2.0, 40_000), (4.0, 160_000)])
def test_rate_and_burstiness_converge(cv: float, requests: int, seed: int) -> None:
    summary = gamma(25.0, cv, requests=requests, seed=seed).summary()
    assert summary["rate"] == pytest.approx(25.0, rel=0.05)
    assert summary["cv"] == pytest.approx(cv, rel=0.08)


def test_poisson_counts_are_poisson() -> None:
    arrival = poisson(30.0, duration_s=2000.0, seed=4).arrival
    counts = np.bincount((arrival // SECOND).astype(int), minlength=2000)
    assert counts.mean() == pytest.approx(30.0, rel=0.03)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.15)


def test_equal_gaps() -> None:
    assert constant(0.25, requests=4).arrival.tolist() == [0, SECOND // 4, SECOND // 2, 3 * SECOND // 4]
    assert len(constant(0.25, duration_s=1.0)) == 4
    assert gamma(4.0, 0.0, requests=3).arrival.tolist() == [SECOND // 4, SECOND // 2, 3 * SECOND // 4]


def test_closed_and_offline_loads_wait_at_the_door() -> None:
    load = closed(8, 100).check()
    assert (load.concurrency, len(load), int(load.arrival.max())) == (8, 100, 0)
    batch = all_at_once(100).check()
    assert (batch.concurrency, int(batch.arrival.max())) == (0, 0)


@given(st.floats(0.5, 50), st.floats(0.2, 3), st.integers(1, 60), st.integers(0, 99))
def test_a_shorter_load_is_the_beginning_of_a_longer_one(rate: float, cv: float, requests: int, seed: int) -> None:
    options: Any = {"prompt_tokens": lognormal(100, 1.0), "output_tokens": exponential(9), "seed": seed}
    short = gamma(rate, cv, requests=requests, **options).check()
    long = gamma(rate, cv, requests=3 * requests, **options)
    timed = gamma(rate, cv, duration_s=(long.arrival[requests - 1] + 1) / SECOND + 1e-9, **options)
    for name in COLUMNS:
        assert getattr(short, name).tolist() == getattr(long, name)[:requests].tolist()
        assert getattr(timed, name)[:requests].tolist() == getattr(short, name).tolist()


@given(st.floats(0.5, 5), st.integers(1, 30), st.integers(0, 50))
def test_duration_and_requests_both_bound(rate: float, requests: int, seed: int) -> None:
    both = gamma(rate, 3.0, requests=requests, duration_s=10.0, seed=seed) if _some(rate, seed) else None
    if both is not None:
        assert len(both) <= requests and both.arrival[-1] < 10 * SECOND


def _some(rate: float, seed: int) -> bool:
    return bool(gamma(rate, 3.0, requests=1, seed=seed).arrival[0] < 10 * SECOND)


def test_one_column_does_not_shift_another() -> None:
    plain = poisson(10.0, prompt_tokens=lognormal(800, 0.9), output_tokens=100, requests=200, seed=7)
    other = poisson(10.0, prompt_tokens=uniform(1, 9), output_tokens=exponential(50), requests=200, seed=7)
    faster = poisson(20.0, prompt_tokens=lognormal(800, 0.9), output_tokens=100, requests=200, seed=7)
    assert plain.arrival.tolist() == other.arrival.tolist()
    assert plain.prompt.tolist() == faster.prompt.tolist()
    # The same crowd at twice the rate: common random numbers along a curve over load.
    assert faster.arrival == pytest.approx(plain.arrival / 2, abs=1)


def test_columns_of_one_distribution_are_independent() -> None:
    load = poisson(10.0, prompt_tokens=lognormal(800, 0.9), output_tokens=lognormal(800, 0.9), requests=5000)
    assert abs(np.corrcoef(load.prompt, load.output)[0, 1]) < 0.08


def test_seeds_matter() -> None:
    assert poisson(10.0, requests=50, seed=1).arrival.tolist() != poisson(10.0, requests=50, seed=2).arrival.tolist()


def test_options_fill_their_columns() -> None:
    load = poisson(
        1.0, requests=5, output_tokens=90, max_tokens=64, deadline_s=2.5, timeout_s=9, priority=-3, retry=2, seed=1
    ).check()
    assert load.output.tolist() == [64] * 5
    assert load.max_tokens is not None and load.max_tokens.tolist() == [64] * 5
    assert load.deadline is not None and load.deadline.tolist() == [5 * SECOND // 2] * 5
    assert load.timeout is not None and load.timeout.tolist() == [9 * SECOND] * 5
    assert load.priority is not None and load.priority.tolist() == [-3] * 5
    assert load.retry == 2
    assert load.source == {"kind": "poisson", "rate": 1.0, "cv": 1.0, "requests": 5, "seed": 1}


def test_pairs_stay_together() -> None:
    pairs = Pairs(np.array([10, 20, 30], dtype=np.int32), np.array([1, 2, 3], dtype=np.int32))
    load = poisson(1.0, requests=500, lengths=pairs)
    assert (load.prompt == 10 * load.output).all()
    assert set(load.output.tolist()) == {1, 2, 3}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: poisson(0.0, requests=5), "rate is 0.0; it must be above 0"),
        (lambda: poisson(-1, requests=5), "rate is -1"),
        (lambda: poisson(float("inf"), requests=5), "rate is inf; it must be finite"),
        (lambda: poisson("4", requests=5), "rate is '4'; it must be a number"),
        (lambda: gamma(1.0, -1.0, requests=5), "cv is -1.0"),
        (lambda: poisson(1.0, prompt_tokens=-3), "prompt_tokens is -3"),
        (lambda: poisson(1.0, requests=0), "requests is 0"),
        (lambda: poisson(1.0, requests=2.5), "requests is 2.5; it must be a whole number"),
        (lambda: poisson(1.0, duration_s=0.0), "duration_s is 0.0"),
        (lambda: constant(1.0, duration_s=-2.0), "duration_s is -2.0"),
        (lambda: poisson(1e9, duration_s=1e9), "duration_s times the rate is"),
        (lambda: poisson(1e-3, duration_s=1e-3), "no request arrives in it"),
        (lambda: poisson(1e-7, requests=10), "53 days at most"),
        (lambda: poisson(1.0, requests=5, seed=-1), "seed is -1"),
        (lambda: poisson(1.0, requests=5, seed=1.5), "seed is 1.5"),
        (lambda: poisson(1.0, requests=5, prompt_tokens="long"), "prompt_tokens is 'long'"),
        (lambda: poisson(1.0, requests=5, output_tokens={"bell": 3}), "output_tokens has the keys ['bell']"),
        (lambda: poisson(1.0, requests=5, max_tokens=0), "max_tokens is 0"),
        (lambda: poisson(1.0, requests=5, deadline_s=0), "deadline_s is 0"),
        (lambda: poisson(1.0, requests=5, priority=40000), "priority is 40000"),
        (lambda: poisson(1.0, requests=5, retry=-1), "retry is -1"),
        (lambda: closed(0, 5), "concurrency is 0"),
        (lambda: all_at_once(0), "requests is 0"),
        (lambda: Pairs(np.array([1]), np.array([1, 2])), "give equally many"),
        (lambda: Pairs(np.array([1, 0]), np.array([1, 2])), "prompt lies outside"),
        (lambda: poisson(1.0, requests=5, lengths=Pairs(np.ones(1), np.ones(1)), prompt_tokens=3), "one or the other"),
    ],
)
def test_wrong_arguments(made: Any, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        made()
    assert message in str(caught.value)


def test_unknown_options_are_named() -> None:
    with pytest.raises(TypeError, match="'prompt_token'"):
        poisson(1.0, requests=5, prompt_token=3)  # type: ignore[call-arg]


def test_a_plain_row_takes_sixteen_bytes() -> None:
    assert poisson(10.0, requests=1000).nbytes == 16_000


def digest(workload: Workload) -> str:
    found = workload.prefixes
    assert found is not None and found.output is not None and workload.delay is not None
    columns = [workload.arrival, workload.prompt, workload.output, workload.delay, found.ids, found.ends, found.output]
    return hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest()


def everything() -> Workload:
    base = gamma(9.0, 2.0, requests=40, prompt_tokens=lognormal(90, 1.0), output_tokens=exponential(20), seed=11)
    rich = shared_prefixes(base, groups=6, prefix_tokens=uniform(50, 90), depth=3, seed=11)
    return sessions(rich, turns=uniform(1, 5), think_s=exponential(3), seed=11).thin(0.7, 3).superpose(2, 5)


def test_equal_seeds_give_equal_bytes_in_every_process() -> None:
    code = "from tests.workload.test_generate import digest, everything; print(digest(everything()))"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
        assert made.stdout.decode().strip() == digest(everything())


def test_small_workloads_do_without_polars() -> None:
    code = (
        "import sys; import poise.workload as w; "
        "w.sessions(w.shared_prefixes(w.poisson(4.0, requests=9), groups=2, prefix_tokens=64)).check().summary(); "
        "sys.exit('polars' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
