"""What is counted, bounded, and shown to Prometheus without holding anybody up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from poise.live.gateway.counts import BOUNDS, BUSIER, MOST, OTHERS, CounterRow, CounterTable
from poise.live.gateway.exposition import LINES, counter, histograms, labels, slices
from poise.live.gateway.fleet import STATES
from poise.live.gateway.stats import Stats
from poise.live.http import Server
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.gateway.fakes import Bench

NAMES = st.lists(st.sampled_from([f"t{number}" for number in range(9)]), max_size=60)


class Counted:
    """A bench whose ended requests are counted, and what Prometheus makes of its page."""

    def __init__(self) -> None:
        self.bench = Bench(2, PrefixCache())
        self.stats = Stats(self.bench.world, Server(lambda exchange: None))
        _, _, self._trip = self.bench.ask()
        self._trip.engine = None

    def end(self, tenant: str, status: int = 200) -> None:
        """A request of a tenant ends, which no engine had."""
        self._trip.tenant = tenant
        self.stats.ended(self._trip, status)

    def samples(self) -> dict[tuple[str, str], float]:
        """By name and labels, as text."""
        text = b"".join(self.stats.page()).decode()
        families = text_string_to_metric_families(text)
        return {
            (sample.name, ",".join(sample.labels.values())): sample.value
            for each in families
            for sample in each.samples
        }


def test_prometheus_reads_the_page() -> None:
    counted = Counted()
    counted.end("a")
    counted.end("a", 503)
    counted.end('b"\\\n{}')
    samples = counted.samples()
    assert samples["poise_requests_total", ",200"] == 2 and samples["poise_requests_total", ",503"] == 1
    assert samples["poise_tenant_requests_total", "a,200"] == 1
    assert samples["poise_tenant_requests_total", 'b"\\\n{},200'] == 1, "a name comes back as it was"
    assert samples["poise_tenant_queue_time_seconds_count", "a"] == 2
    assert samples["poise_tenant_queue_time_seconds_bucket", "a,+Inf"] == 2
    assert [samples["poise_engine_state", f"e0,{word}"] for word in STATES] == [0, 1, 0, 0, 0]
    assert samples["poise_engine_down_seconds", "e0"] == 0
    assert samples["poise_requests_held", ""] == 0


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_histogram_is_what_prometheus_takes_it_for(values: list[float]) -> None:
    row = CounterRow()
    for value in values:
        row.e2e.add(value)
    text = b"".join(slices([histograms("x", "A histogram", [(labels(("a", "b")), row.e2e)])])).decode()
    (family,) = text_string_to_metric_families(text)
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name == "x_bucket"}
    assert buckets == {**{str(bound): sum(value <= bound for value in values) for bound in BOUNDS}, "+Inf": len(values)}
    assert {each.name: each.value for each in family.samples if each.name != "x_bucket"} == {
        "x_count": len(values),
        "x_sum": pytest.approx(sum(values)),
    }


def test_ten_thousand_tenants_cost_as_much_as_two_hundred() -> None:
    """Work is counted in lines: of the whole page, and of each slice, which is what one turn of the loop makes."""
    counted = Counted()
    for number in range(MOST):
        counted.end(f"t{number}")
    before = [piece.count(b"\n") for piece in counted.stats.page()]
    for number in range(10_000):
        counted.end(f"t{number}")
    after = [piece.count(b"\n") for piece in counted.stats.page()]
    assert max(after) == LINES and len(after) > 10
    a_row = 1 + 3 + 3 * (len(BOUNDS) + 3)  # a status, the sums, the histograms
    assert sum(after) == sum(before) + a_row, "one row more: that of the others"
    samples = counted.samples()
    assert samples["poise_tenant_requests_total", f"{OTHERS},200"] == 10_000 - MOST
    assert len(counted.stats.tenants) == MOST + 1


def test_a_slice_is_made_when_it_is_requested() -> None:
    made: list[int] = []

    def rows() -> object:
        for number in range(30):
            made.append(number)
            yield "", float(number)

    pieces = slices([counter("x", "A counter", rows())], 10)  # type: ignore[arg-type]
    assert not made
    next(pieces)
    assert len(made) == 8, "ten lines with the two of its head"
    assert b"".join(pieces).count(b"\n") == 22


@given(NAMES, st.sets(st.integers(0, 59)))
def test_no_row_ever_counts_backwards_and_nothing_is_lost(names: list[str], reviews: set[int]) -> None:
    table = CounterTable(3)
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        table.row(name).requests += 1
        if place in reviews:
            table.review()
        assert len(table.rows) <= 4 and sum(row.requests for row in table.rows.values()) == place + 1
        for each, row in table.rows.items():
            assert row.requests >= seen.get(each, 0)
        seen = {each: row.requests for each, row in table.rows.items()}


def test_who_is_busier_gets_the_row_of_who_is_not() -> None:
    table = CounterTable(2)
    for name, times in (("idle", 1), ("steady", 5), ("late", BUSIER * 1 + 1)):
        for _ in range(times):
            table.row(name).requests += 1
    assert set(table.rows) == {"idle", "steady", OTHERS}
    table.review()
    assert {name: row.requests for name, row in table.rows.items()} == {"steady": 5, "late": 0, OTHERS: 4}
    for _ in range(BUSIER):
        table.row("idle").requests += 1
    for name in ("steady", "late"):
        table.row(name).requests += 1
    table.review()
    assert set(table.rows) == {"steady", "late", OTHERS}, "no more than as busy as twice the least: nothing changes"
    table.row("idle").requests += 1
    table.review(gone={"steady"})
    assert set(table.rows) == {"late", "idle", OTHERS}, "who is gone needs no row"
