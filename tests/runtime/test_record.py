"""What was measured: the order is the simulated one, what was held is what was predicted, and costs follow."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
import torch

from poise.cli import main
from poise.core.errors import UserError
from poise.pipeline import Schedule, make, names
from poise.pipeline.graph import graph_of
from poise.pipeline.memory import memory
from poise.pipeline.op import COMMUNICATIONS
from poise.runtime import Pipeline, Recording
from poise.runtime.decoder import cross_entropy, cut, decoder
from poise.runtime.recording import Event, costs_of
from tests.runtime.cases import RANKS, with_copies
from tests.runtime.pool import Pool
from tests.runtime.truth import SIZE, batch


def record(schedule: Schedule) -> Recording:
    output = torch.nn.Linear(SIZE.hidden, SIZE.vocabulary // RANKS, bias=False) if schedule.barriers else None
    parts = decoder(SIZE)[: -1 if output else None]
    modules = cut([*parts, torch.nn.Identity()] if output else parts, schedule.stages)
    make_sgd = None if schedule.updates == "flush" else partial(torch.optim.SGD, lr=0.1)
    pipeline = Pipeline(schedule, modules, cross_entropy, optimizer=make_sgd, output=output, watched=True)
    return pipeline.record(*batch(schedule.microbatches))[1]


QUICK = {("zb_v", True), ("chimera", False)}


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        each if each in QUICK else pytest.param(*each, marks=pytest.mark.slow)
        for each in ((name, copied) for name in names() for copied in (False, True))
    ],
)
def test_order_and_memory_are_those_of_the_simulation(pool: Pool, name: str, copied: bool) -> None:
    schedule = make(name, RANKS, 8)
    if copied:
        if name in ("po_f", "po_h"):
            pytest.skip("it has copies of its own")
        schedule = with_copies(schedule, 11)
    recording = pool.run(record, schedule)[0]
    graph = graph_of(schedule)
    levels = memory(graph)
    starts, ends = {}, {}
    for rank, row in enumerate(recording.ranks):
        own = [each for each in recording.order()[rank] if each.kind not in COMMUNICATIONS]
        assert own == list(schedule.ranks[rank])
        events = {each.op: each for each in row}
        held = [events[str(op)].held * schedule.chunk for op in own]
        assert held == [Fraction(level, levels.scale) for level in levels.curve(rank)]
        for at, op in enumerate(own):
            index = graph.first[rank] + at
            starts[index], ends[index] = events[str(op)].start, events[str(op)].end
    for index, need in enumerate(graph.waits.tolist()):
        assert need < 0 or ends[need] <= starts[index]
    assert max(each.bytes for each in recording.ranks[0]) > 0
    assert all(row[-1].bytes == 0 == row[-1].held for row in recording.ranks)


def test_bytes_follow_the_activations_that_are_held(pool: Pool) -> None:
    """Stages in the middle are alike, so each microbatch under way adds the same bytes."""
    recording = pool.run(record, make("one_f_one_b", RANKS, 6))[0]
    for rank in (1, 2):
        each = {event.bytes / event.held for event in recording.ranks[rank] if event.held}
        assert len(each) == 1


def a_recording() -> Recording:
    """Two ranks, a microbatch; times in milliseconds: F 2 and 3, I 4 and 5, W 6 and 7, messages 0.5 and 1.

    Lanes that send have nothing before: the step reaches a message at 0, and sends it when it is made.
    """
    ms = 10**6
    schedule = Schedule.of([_row("0F0 0I0 0W0"), _row("1F0 1I0 1W0")])
    one = [("0F0", 0, 0, 2), ("0SEND_F0", 0, 2, 2), ("0RECV_B0", 0, 0, 12), ("0I0", 2, 12, 16), ("0W0", 16, 16, 22)]
    two = [("1RECV_F0", 0, 0, 0), ("1F0", 0, 3, 6), ("1I0", 6, 6, 11), ("1SEND_B0", 0, 11, 11), ("1W0", 11, 11, 18)]
    two[1] = ("1F0", 0, 2.5, 5.5)  # type: ignore[assignment]
    rows = [[Event(op, *(int(at * ms) for at in times), 0, 0) for op, *times in row] for row in (one, two)]  # type: ignore[misc]
    return Recording(schedule, rows)


def _row(text: str) -> list:  # type: ignore[type-arg]
    from poise.pipeline.op import read_op

    return [read_op(word) for word in text.split()]


def test_costs_are_those_that_were_measured() -> None:
    costs = costs_of([a_recording()])
    assert (costs.f, costs.b, costs.w) == ((2, 3), (4, 5), (6, 7))
    assert costs.comm[0] == Fraction(3, 4)  # the median of 0.5 and 1
    assert float(a_recording().timing().makespan) == pytest.approx(2 + 0.75 + 3 + 5 + 0.75 + 4 + 6)


def test_calibrate_tells_the_costs_and_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_recording().save(tmp_path / "x.json")
    assert main(["calibrate", str(tmp_path / "x.json")]) == 0
    printed = capsys.readouterr().out
    assert "step: 22 ms measured, 21.5 ms simulated (-2.3 %)" in printed
    assert "for poise train schedule: --f 2,3 --b 4,5 --w 6,7 --comm 0.75,0" in printed
    assert main(["calibrate", str(tmp_path / "x.json"), "--json", "-"]) == 0
    events = json.loads(capsys.readouterr().out)
    assert events["peak_measured"] == [0, 0] and events["peak_simulated"] == [1, 1]
    assert main(["calibrate", str(tmp_path / "x.json"), "--model", "x"]) == 2


def test_a_recording_reads_back(tmp_path: Path) -> None:
    recording = a_recording()
    recording.save(tmp_path / "x.json")
    assert Recording.load(tmp_path / "x.json") == recording
    events = json.loads(recording.trace())["traceEvents"]
    named = [each["args"]["name"] for each in events if each["name"] == "process_name"]
    assert named == ["rank 0", "rank 1", "rank 0 simulated", "rank 1 simulated"]
    (tmp_path / "y.json").write_text("[]")
    with pytest.raises(UserError, match="no recording of version 1"):
        Recording.load(tmp_path / "y.json")
