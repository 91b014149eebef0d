"""The feed: the same bytes for every page, all that is needed to begin, and nothing for who does not read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poise.live.admin.feed import BEATS, FIRST, Feed
from poise.live.admin.merge import Json, merge
from poise.live.http.exchange import Exchange

from ..gateway.fakes import Wire


class Source:
    """A state and decisions that change as the test says."""

    def __init__(self) -> None:
        self.value = 0
        self.count = 0
        self.taken = 0
        self.turns: list[bool] = []
        self.feed = Feed(self.state, self.decided, self.turns.append)

    def state(self) -> Json:
        self.taken += 1
        return {"value": self.value, "deep": {str(self.value % 3): self.value, "same": 1}}

    def decided(self, number: int, most: int) -> tuple[int, list[Json]]:
        first = max(number, self.count - most) + 1
        return self.count, [{"number": each} for each in range(first, self.count + 1)]


class Browser:
    """A page, as it puts together what it is sent."""

    def __init__(self, feed: Feed) -> None:
        self.wire = Wire()
        self.exchange = Exchange("GET", b"/events", [], b"", 0, modern=False)
        self.exchange.join(self.wire, "127.0.0.1")
        self.joined = feed.join(self.exchange)
        self.at = 0

    def read(self) -> tuple[Json, list[int], int]:
        """The state, the decisions, and how many it was told to be without."""
        state: Json = {}
        rows: list[int] = []
        left_out = 0
        for part in self.wire.body.decode().split("\n\n")[:-1]:
            first, second = part.split("\n")
            name, data = first.removeprefix("event: "), json.loads(second.removeprefix("data: "))
            if name == "decisions":
                rows = ([] if data.get("anew") else rows) + [each["number"] for each in data["rows"]]
                left_out += data["left_out"]
            else:
                state = data if name == "state" else merge(state, data)
        return state, rows, left_out


def beat(source: Source, times: int = BEATS) -> None:
    for _ in range(times):
        source.feed.beat()


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.integers(1, 12)), min_size=1, max_size=12))
def test_every_page_knows_the_state_and_no_decision_twice(script: list[tuple[int, bool, int]]) -> None:
    source = Source()
    source.count = 7
    pages = [Browser(source.feed)]
    for value, opens, beats in script:
        source.value = value
        source.count += value
        if opens:
            pages.append(Browser(source.feed))
        beat(source, beats)
    beat(source)
    for page in pages:
        state, rows, left_out = page.read()
        assert state == source.state()
        assert rows == sorted(set(rows)) and rows[-1:] in ([source.count], [])
        assert len(rows) + left_out <= source.count
    state, rows, left_out = pages[0].read()
    assert len(rows) + left_out == source.count, "every decision is told, or that it is not"


def test_many_pages_cost_one_snapshot() -> None:
    source = Source()
    pages = [Browser(source.feed) for _ in range(20)]
    assert source.taken == 1
    beat(source)
    assert source.taken == 2 and len({page.wire.body for page in pages}) == 1


def test_who_does_not_read_gets_nothing_and_then_all_anew() -> None:
    source = Source()
    page, other = Browser(source.feed), Browser(source.feed)
    assert page.exchange.flow is not None
    page.exchange.flow(False)
    sent = len(page.wire.sent)
    for _ in range(20):
        source.value += 1
        source.count += 1
        beat(source)
    assert len(page.wire.sent) == sent and len(other.wire.sent) > sent
    page.exchange.flow(True)
    assert page.read()[0] == other.read()[0] == source.state()
    assert page.read()[1] == list(range(1, 21))
    source.count += 1
    beat(source)
    assert page.read()[1][-1] == 21


def test_a_page_begins_with_the_last_decisions_only() -> None:
    source = Source()
    source.count = 1000
    assert Browser(source.feed).read()[1] == list(range(1001 - FIRST, 1001))


def test_work_begins_with_the_first_page_and_ends_with_the_last() -> None:
    source = Source()
    beat(source)
    assert source.taken == 0 and source.turns == []
    pages = [Browser(source.feed), Browser(source.feed)]
    assert source.turns == [True]
    for page in pages:
        page.exchange.leave()
    assert source.turns == [True, False] and len(source.feed) == 0
    again: Any = Browser(source.feed)
    assert source.turns == [True, False, True]
    source.feed.close()
    assert again.wire.done and source.turns[-1] is False
    assert not Browser(source.feed).joined, "it is closed"
