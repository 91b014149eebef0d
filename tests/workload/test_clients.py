"""Clients: each window has its recorded requests, each client its lengths, and none shifts another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ScenarioError, TraceError
from poise.core.units import SECOND
from poise.workload import Clients, Workload, read, read_clients, servegen
from tests.workload.files import Row, as_csv, put

LEVELS = ("q0", "q50", "q99.5", "q100")


def arrivals(windows: list[tuple[int, int, float]], **more: Any) -> list[Row]:
    """Rows of (client, begin, requests per second)."""
    rest = {"cv": 2.0, "pattern": "Gamma", "param1": 0.25, "param2": 1.0, **more}
    return [{"client": name, "window_start_s": begin, "rate_rps": rate, **rest} for name, begin, rate in windows]


def lengths(client: int, begin: int, field: str, *values: float) -> Row:
    return {"client": client, "window_start_s": begin, "field": field, **dict(zip(LEVELS, values, strict=True))}


WINDOWS = [(7, 0, 0.5), (7, 600, 0.25), (7, 1200, 0.25), (9, 0, 0.1), (9, 1200, 0.2)]
TABLES = [
    lengths(7, 0, "input_tokens", 10, 20, 30, 40),
    lengths(7, 0, "output_tokens", 1, 1, 1, 1),
    lengths(7, 0, "reason_ratio", 0, 0, 0, 0),
    lengths(9, 0, "output_tokens", 100, 200, 300, 400),
    lengths(9, 0, "input_tokens", 1000, 2000, 3000, 4000),
]


def write(folder: Path, windows: list[Row], tables: list[Row]) -> Path:
    put(folder, "x_lengths.csv", as_csv(tables))
    return put(folder, "x_arrivals.csv", as_csv(windows))


def clients(folder: Path, windows: list[tuple[int, int, float]] = WINDOWS, **more: Any) -> Clients:
    return read_clients(write(folder, arrivals(windows, **more), TABLES))


def rows_of(made: Workload, client: int) -> list[tuple[int, int, int]]:
    assert made.tenant is not None
    mine = made.tenant == client
    return list(zip(*(column[mine].tolist() for column in (made.arrival, made.prompt, made.output)), strict=True))


def test_every_window_has_its_requests(tmp_path: Path) -> None:
    made = servegen(clients(tmp_path), duration_s=1800, seed=3).check()
    windows = made.arrival // (600 * SECOND)
    assert made.tenant is not None
    counts = {(int(name), int(window)): 0 for name, window in zip(made.tenant, windows, strict=True)}
    for name, window in zip(made.tenant.tolist(), windows.tolist(), strict=True):
        counts[name, window] += 1
    assert counts == {(7, 0): 300, (7, 1): 150, (7, 2): 150, (9, 0): 60, (9, 2): 120}


def test_every_client_has_its_lengths(tmp_path: Path) -> None:
    made = servegen(clients(tmp_path), duration_s=1800)
    seven, nine = rows_of(made, 7), rows_of(made, 9)
    assert all(10 <= prompt <= 40 and output == 1 for _, prompt, output in seven)
    assert all(1000 <= prompt <= 4000 and 100 <= output <= 400 for _, prompt, output in nine)
    assert np.median([prompt for _, prompt, _ in seven]) == pytest.approx(20, abs=1.5)


@pytest.fixture(scope="module")
def few_and_more(tmp_path_factory: pytest.TempPathFactory) -> tuple[Clients, Clients]:
    """The same clients without and with one more."""
    folders = [tmp_path_factory.mktemp("tables") for _ in range(2)]
    return clients(folders[0]), clients(folders[1], [*WINDOWS, (11, 0, 0.05)])


@given(st.integers(0, 50), st.sampled_from([None, 1, 2]), st.sampled_from([600.0, 900.0, 1800.0]))
def test_what_others_do_shifts_no_client(
    few_and_more: tuple[Clients, Clients], seed: int, top: int | None, duration_s: float
) -> None:
    few, more = few_and_more
    every = servegen(more, duration_s=1800, seed=seed, unmeasured="pool")
    some = servegen(few, duration_s=duration_s, seed=seed, top=top)
    wanted = [row for row in rows_of(every, 7) if row[0] < duration_s * SECOND]
    assert rows_of(some, 7) == wanted


@pytest.mark.parametrize(("pattern", "shape", "cv"), [("Gamma", 0.25, 2.0), ("Weibull", 0.5, 5**0.5), ("Gamma", 1, 1)])
def test_gaps_have_the_fitted_shape(tmp_path: Path, pattern: str, shape: float, cv: float) -> None:
    made = clients(tmp_path, [(7, 0, 50.0), (7, 600, 50.0)], pattern=pattern, param1=shape)
    gaps = np.diff(servegen(made, duration_s=600, seed=1).arrival)
    # 30,000 gaps: the sample cv of the widest (Weibull, kurtosis 84) errs by a few per cent.
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_a_tiny_shape_is_one_volley(tmp_path: Path) -> None:
    made = clients(tmp_path, [(7, 0, 0.05), (7, 600, 0.05)], param1=1e-4)
    assert len(servegen(made, duration_s=600).check()) == 30


def test_clients_do_not_meet_at_the_edges_of_windows(tmp_path: Path) -> None:
    windows = [(name, begin, 0.02) for name in range(300) for begin in (0, 600)]
    tables = [lengths(name, 0, field, 1, 2, 3, 4) for name in range(300) for field in ("input_tokens", "output_tokens")]
    made = servegen(read_clients(write(tmp_path, arrivals(windows), tables)), duration_s=1200)
    per_second = np.bincount((made.arrival // SECOND).astype(int), minlength=1200)
    edge = per_second[595:605].sum()
    assert edge < 3 * per_second.mean() * 10


@pytest.mark.parametrize("rate", [0.05, 0.3, 4.0])
def test_a_rate_is_reached(tmp_path: Path, rate: float) -> None:
    made = servegen(clients(tmp_path), duration_s=1800, rate=rate, seed=2).check()
    assert len(made) == pytest.approx(rate * 1800, abs=3)
    part = servegen(clients(tmp_path), begin_s=300, duration_s=600, rate=rate, seed=2)
    assert len(part) == pytest.approx(rate * 600, rel=0.5, abs=30) and part.arrival[-1] < 600 * SECOND


def test_so_many_requests(tmp_path: Path) -> None:
    known = clients(tmp_path)
    few, all_of_them = servegen(known, requests=100, seed=4), servegen(known, duration_s=1800, seed=4)
    assert few.arrival.tolist() == all_of_them.arrival[:100].tolist()
    assert len(servegen(known, requests=10**6)) == 780


def test_clients_without_lengths(tmp_path: Path) -> None:
    known = clients(tmp_path, [*WINDOWS, (11, 0, 1.0)])
    dropped = servegen(known, duration_s=600)
    assert dropped.source["unmeasured_clients"] == 1
    assert dropped.source["unmeasured_share"] == pytest.approx(600 / 960)
    assert len(dropped) == 360 and not rows_of(dropped, 11)
    pooled = servegen(known, duration_s=600, unmeasured="pool")
    borrowed = [prompt for _, prompt, _ in rows_of(pooled, 11)]
    assert len(borrowed) == 600
    # 300 of 360 requests of that time are of client 7, whose prompts are short.
    assert np.mean(np.array(borrowed) <= 40) == pytest.approx(300 / 360, abs=0.06)


def test_images_are_part_of_the_prompt(tmp_path: Path) -> None:
    tables = [
        lengths(7, 0, "text_tokens", 5, 5, 5, 5),
        lengths(7, 0, "output_tokens", 1, 1, 1, 1),
        lengths(7, 0, "image_count", 2, 2, 2, 2),
        lengths(7, 0, "image_tokens", 100, 200, 300, 300),
    ]
    made = servegen(read_clients(write(tmp_path, arrivals(WINDOWS), tables)), duration_s=600)
    assert made.prompt.min() >= 205 and made.prompt.max() <= 605
    assert len(set(made.prompt.tolist())) > 100


def test_a_window_takes_the_last_table_before_it(tmp_path: Path) -> None:
    fields = ("input_tokens", "output_tokens")
    tables = [lengths(7, at, field, 1, 1, 1, 1 + at) for at in (0, 1200) for field in fields]
    known = read_clients(write(tmp_path, arrivals(WINDOWS), tables))
    assert [known.table[known.client == 7].tolist(), known.table[known.client == 9].tolist()] == [[0, 0, 1], [-1, -1]]


BAD = [
    ("arrivals", {"rate_rps": -1}, "line 3: rate_rps is '-1'; it must be a number"),
    ("arrivals", {"param1": 0}, "line 3: param1 is '0'; it must be a number above 0"),
    ("arrivals", {"pattern": "Normal"}, "line 3: pattern is 'Normal'; it must be Gamma or Weibull"),
    ("lengths", {"q50": 5}, "line 3: q0 is '10'; its quantiles must be numbers from 0 that ascend"),
    ("lengths", {"q99.5": "x"}, "line 3: q0 is '10'; its quantiles"),
    ("lengths", {"field": "output_tokens"}, "line 3: client is '7'; it must have one row for each of input_tok"),
]


@pytest.mark.parametrize(("table", "change", "message"), BAD)
def test_a_bad_row_is_named_or_passed_over(tmp_path: Path, table: str, change: Row, message: str) -> None:
    windows, tables = arrivals(WINDOWS), [dict(TABLES[at]) for at in (3, 0, 1, 4)]
    (windows if table == "arrivals" else tables)[1] |= change
    path = write(tmp_path, windows, tables)
    with pytest.raises(TraceError, match=message):
        read_clients(path)
    assert len(servegen(read_clients(path, skip_bad=True), duration_s=1800).check()) > 100


def test_wrong_files_and_arguments(tmp_path: Path) -> None:
    known = clients(tmp_path)
    with pytest.raises(TraceError, match="no such file"):
        read_clients(put(tmp_path, "y_arrivals.csv", as_csv(arrivals(WINDOWS))))
    with pytest.raises(TraceError, match="its name has no `arrivals`"):
        read_clients(put(tmp_path, "y.csv", as_csv(arrivals(WINDOWS))))
    with pytest.raises(TraceError, match="lacks the columns field, q0, q100"):
        read_clients(tmp_path / "x_arrivals.csv", tmp_path / "x_arrivals.csv")
    with pytest.raises(TraceError, match="found the fields input_tokens, and needs output_tokens"):
        read_clients(write(tmp_path, arrivals(WINDOWS), TABLES[:1]))
    with pytest.raises(TraceError, match="one window of time"):
        read_clients(write(tmp_path, arrivals(WINDOWS[:1]), TABLES))
    with pytest.raises(ScenarioError, match="both missing"):
        servegen(known)
    with pytest.raises(ScenarioError, match="begin_s is 9000"):
        servegen(known, begin_s=9000, duration_s=5)
    with pytest.raises(ScenarioError, match="unmeasured is 'guess'"):
        servegen(known, duration_s=5, unmeasured="guess")
    with pytest.raises(ScenarioError, match="nobody arrives"):
        servegen(known, duration_s=5, rate=1e-9)
    with pytest.raises(ScenarioError, match="the number of requests asked for"):
        servegen(known, duration_s=1800, rate=1e9)
    for name in ("arrivals", "lengths"):
        with pytest.raises(TraceError, match="servegen"):
            read(write(tmp_path, arrivals(WINDOWS), TABLES).with_name(f"x_{name}.csv"))


# README of the data: clients, requests per second, share of the busiest and of the ten busiest clients, and mean, p50,
# p95, p99 of inputs and outputs. There as here draws are linear between quantiles, which lifts means by some per cent.
PUBLISHED = [
    ("m-large", 144, 215.5, (0.138, 0.682), (933, 640, 2404, 4325), (153, 48, 501, 723)),
    ("m-small", 39, 1092.8, (0.32, 0.92), (118, 41, 578, 1435), (18, 3, 78, 152)),
    ("deepseek-r1", 55, 8.2, (0.154, 0.702), (1348, 370, 5428, 27020), (1205, 526, 4238, 14766)),
    ("mm-image", 27, 7.1, (0.181, 0.851), None, (122, 78, 360, 672)),
]


@pytest.mark.parametrize(("family", "number", "rate", "shares", "inputs", "outputs"), PUBLISHED)
def test_published_figures(
    data_dir: Path,
    family: str,
    number: int,
    rate: float,
    shares: tuple[float, float],
    inputs: tuple[int, ...] | None,
    outputs: tuple[int, ...],
) -> None:
    known = read_clients(data_dir / f"servegen_alibaba/{family}_arrivals.parquet")
    totals = np.sort(np.bincount(known.client, known.expected))[::-1]
    assert (totals > 0).sum() == number
    assert (totals[0] / totals.sum(), totals[:10].sum() / totals.sum()) == pytest.approx(shares, abs=0.001)
    assert known.expected.sum() / known.span_s == pytest.approx(rate, rel=0.01)
    # Of nine days every seventh window is enough for the lengths.
    some = known.some(known.begin_s // known.window_s % (7 if known.span_s > 90_000 else 1) == 0)
    summary = servegen(some, duration_s=known.span_s, rate=60_000 / known.span_s).summary()
    for name, published in (("prompt_tokens", inputs), ("output_tokens", outputs)):
        if published is not None:
            figures = [summary[name][each] for each in ("mean", "p50", "p95", "p99")]
            assert figures == pytest.approx(published, rel=0.1, abs=1)
