"""The record: written, read back, replayed; another version or a broken line is refused by name."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core import action as actions
from poise.core import event as events
from poise.core.action import Abort, Convert, Dispatch, Hedge, Lend, Move, Refuse, Scale, Wake
from poise.core.control.control import Control
from poise.core.errors import TraceError
from poise.core.event import (
    Arrived,
    CacheChanged,
    Cancelled,
    Event,
    Finished,
    FirstToken,
    Measured,
    Prefilled,
    Refused,
    ReplicaJoined,
    ReplicaLost,
    ReplicaUpdated,
    Reported,
    Tick,
)
from poise.core.records.fields import hints
from poise.core.records.trace import SCHEMA, Trace, replay
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from tests.core.scripted import a_control, at_most

numbers = st.integers(0, 2**62)
extents = st.lists(numbers, max_size=3).map(tuple)
requests = st.builds(
    RequestView, numbers, numbers, numbers, numbers, extents, extents, *[st.integers(-1, 9)] * 5, deadline_at=numbers
)
columns = st.dictionaries(st.sampled_from(["tokens", "waiting"]), st.lists(numbers, max_size=3))
changes = st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=3).map(tuple)
rates = st.floats(0, 1e12)
specs = st.builds(
    ReplicaSpec,
    numbers,
    st.just("decode"),
    numbers,
    numbers,
    st.booleans(),
    numbers,
    rates,
    rates,
    rates,
    rates,
    numbers,
    rates,
    tenants=extents,
)
SPECIAL: dict[type, st.SearchStrategy[Any]] = {
    Arrived: st.builds(Arrived, numbers, requests, st.integers(0, 3)),
    Reported: st.builds(Reported, numbers, numbers, columns, changes),
    Measured: st.builds(Measured, numbers, numbers, numbers, st.dictionaries(st.just("tokens"), numbers)),
    CacheChanged: st.builds(CacheChanged, numbers, numbers, extents, extents, st.booleans()),
    ReplicaUpdated: st.builds(ReplicaUpdated, numbers, numbers, specs),
    Convert: st.builds(Convert, numbers, st.sampled_from(["mixed", "prefill", "decode"])),
}
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: numbers,
    str: st.text(),
    bool: st.booleans(),
    RequestView: requests,
    dict[str, Any]: st.dictionaries(
        st.sampled_from(["router", "order"]), st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text())
    ),
    tuple[int, ...]: st.lists(numbers, max_size=5).map(tuple),
}
PLAIN |= {tuple: PLAIN[tuple[int, ...]], dict: PLAIN[dict[str, Any]]}  # as compiled classes have them


def anything_of(kind: Any) -> st.SearchStrategy[Any]:
    """A strategy for an event or action, from the types of its fields."""
    if kind in SPECIAL:
        return SPECIAL[kind]
    return st.builds(kind, *[PLAIN[hint] for hint in hints(kind).values()])


KINDS: list[Any] = [*events.Event.__args__, *actions.Action.__args__]
items = st.lists(st.sampled_from(KINDS).flatmap(anything_of), max_size=12)


def recorded(given_: list[Any], header: dict[str, Any] | None = None) -> Trace:
    trace = Trace(header)
    for item in given_:
        trace.add(item)
    return trace


@given(items)
def test_what_is_added_is_read_back(given_: list[Any]) -> None:
    trace = recorded(given_)
    read = list(trace.items())
    assert read == given_
    assert [type(item) for item in read] == [type(item) for item in given_]
    assert list(trace.events) == [item for item in given_ if type(item) in events.Event.__args__]
    assert list(trace.actions) == [item for item in given_ if type(item) in actions.Action.__args__]


@given(items)
def test_a_stream_gets_what_lines_would_keep(given_: list[Any]) -> None:
    stream = io.StringIO()
    trace = Trace({"seed": 1}, stream)
    for item in given_:
        trace.add(item)
    assert stream.getvalue() == "".join(f"{line}\n" for line in recorded(given_, {"seed": 1}).lines)
    assert not trace.lines


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_kind_of_event_and_action_survives_a_file(kind: Any, tmp_path: Path) -> None:
    @settings(max_examples=25)
    @given(anything_of(kind))
    def survives(item: Any) -> None:
        trace = recorded([item], {"seed": 5, "name": "ü"})
        trace.save(tmp_path / "trace.jsonl")
        loaded = Trace.load(tmp_path / "trace.jsonl")
        assert loaded.header == {"schema": SCHEMA, "seed": 5, "name": "ü"}
        assert list(loaded.items()) == [item]

    survives()


def test_the_true_output_length_is_never_recorded_before_it_is_known() -> None:
    """A request that ended tells what it had by then, no other event: a replay must know no more than the control."""
    kinds = [kind.__name__ for kind in KINDS if "output_tokens" in kind._fields]
    assert kinds == ["Finished", "Cancelled", "Failed", "PeerEnded"]


def a_day(control: Control) -> Trace:
    """Some requests come, wait, end and lose their replica; all of it recorded."""
    trace = Trace()
    happened: list[Event] = [
        *[Arrived(number, RequestView(number, number, 10 + number, ids=(1, 2), ends=(4, 8))) for number in range(5)],
        Reported(6, 5, {"tokens": [7, 3]}, ((0, 1, True),)),
        FirstToken(7, 0, 0),
        Finished(8, 0, 3),
        Cancelled(9, 2, "left"),
        Tick(10),
        ReplicaLost(11, 1),
        ReplicaJoined(12, 1),
        *[Arrived(number, RequestView(number, number, 10)) for number in (13, 14)],
    ]
    for event in happened:
        trace.add(event)
        for action in control.handle(event):
            trace.add(action)
    return trace


def test_a_recorded_day_replays_to_the_same_actions(tmp_path: Path) -> None:
    def fresh() -> Control:
        return a_control(at_most(2), [ReplicaSpec(), ReplicaSpec()], belief=Belief(in_flight=True), seed=4)

    trace = a_day(fresh())
    trace.save(tmp_path / "day.jsonl")
    loaded = Trace.load(tmp_path / "day.jsonl")
    assert replay(loaded.events, fresh()) == list(trace.actions)
    assert len(list(trace.actions)) > 5


@pytest.mark.parametrize("schema", [0, SCHEMA + 1, "1", None])
def test_another_version_is_refused(schema: Any, tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"schema": schema}) + "\n")
    with pytest.raises(TraceError, match=rf"old\.jsonl: schema {schema} is not {SCHEMA}; read it with the version"):
        Trace.load(path)


@pytest.mark.parametrize("text", ["", "\n", "not json\n", "[1]\n", "7\n", "{}\n", '["Tick",5]\n'])
def test_a_file_that_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"other\.txt: line 1 is no trace header"):
        Trace.load(path)


@pytest.mark.parametrize(
    "line",
    ["", "{", "{}", "7", "[]", '["Tick"]', '["Tick",1,2]', '["Unknown",1]', '["Arrived",1,2,0]', '["Reported",1]'],
)
def test_a_broken_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    recorded([Tick(1)]).save(path)
    path.write_text(path.read_text() + line + "\n")
    read = Trace.load(path).items()
    assert next(read) == Tick(1)
    with pytest.raises(TraceError, match="line 3 of the trace is neither an event nor an action"):
        next(read)


def test_the_kinds_are_those_that_control_knows() -> None:
    """A kind that is not in the unions could not be read back."""
    assert {Dispatch, Refuse, Abort, Move, Lend, Hedge, Scale, Convert, Wake} == set(actions.Action.__args__)
    assert {Arrived, Prefilled, Refused} < set(events.Event.__args__)


def test_a_line_that_a_crash_cut_off_is_noted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    recorded([Tick(1), Cancelled(2, 3, "ü")]).save(path)
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1])):
        path.write_bytes(whole[:-cut])
        trace = Trace.load(path)
        assert list(trace.items()) == [Tick(1)]
        assert trace.torn == whole.splitlines(keepends=True)[-1][:-cut].decode(errors="replace")
    path.write_bytes(whole)
    assert not Trace.load(path).torn


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ('["Refused",1,2,3,"busy"]', Refused(1, 2, 3, "busy", False)),
        ('["Refuse",1,"full"]', Refuse(1, "full", 0)),
        ('["Arrived",5,[7,5,100]]', Arrived(5, RequestView(7, 5, 100), 0)),
        ('["Arrived",5,[7,5,100,0,[1],[9],0],1]', Arrived(5, RequestView(7, 5, 100, 0, (1,), (9,)), 1)),
        ('["Reported",5,4,{"waiting":[1]}]', Reported(5, 4, {"waiting": [1]})),
        ('["ReplicaUpdated",5,0,[-1,"decode"]]', ReplicaUpdated(5, 0, ReplicaSpec(-1, "decode"))),
        ('["Known",5,0,[-1,"decode"]]', ReplicaUpdated(5, 0, ReplicaSpec(-1, "decode"))),
        ('["Lost",5,3]', ReplicaLost(5, 3)),
        ('["Joined@0",5,3]', ReplicaJoined(5, 3)),
    ],
)
def test_lines_of_earlier_versions_are_read(line: str, item: Any, tmp_path: Path) -> None:
    path = tmp_path / "older.jsonl"
    recorded([]).save(path)
    path.write_text(path.read_text() + line + "\n")
    assert list(Trace.load(path).items()) == [item]


def test_reasons_may_hold_any_text(tmp_path: Path) -> None:
    found = [Cancelled(1, 2, text) for text in ("a\u2028b\x85c\x0bd\n", "\x00\x7f", "ü€😀", '"\\')]
    recorded([*found, Cancelled(1, 2, "half \ud800 of a pair")]).save(tmp_path / "day.jsonl")
    assert list(Trace.load(tmp_path / "day.jsonl").items()) == [*found, Cancelled(1, 2, "half ? of a pair")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_the_types_of_fields_are_known_where_compiled_classes_forget_them(kind: Any) -> None:
    """Named tuples by the name of their field, and nothing in a tuple but arrays and plain values."""
    assert hints(kind) == get_type_hints(kind)
    forgetful = {name: hint.__origin__ if hasattr(hint, "__origin__") else hint for name, hint in hints(kind).items()}
    assert not {list, set, frozenset} & set(forgetful.values())
