"""The recordings of several workers, read as one, are the traffic that all of them served together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.cli import main
from poise.core.errors import TraceError
from poise.core.event import PeerEnded, PeerSent
from poise.core.records.trace import Trace
from poise.core.request import RequestView
from poise.core.spec import Belief
from poise.recordings.recording import Recorded, recorded
from poise.recordings.workers import Together
from tests.recordings.days import Day, a_day

COLUMNS = ("arrived_at", "dispatched_at", "first_token_at", "ended_at", "replica", "output_tokens", "status")
WORKERS = 3


def a_shared_day(requests: int = 300) -> Day:
    return a_day(requests=requests, belief=Belief(gateways=WORKERS, share_s=0.002))


def a_worker(day: Day, gateway: int) -> Trace:
    """What one gateway recorded, as a worker does: in a file of its own, with ids of its own from 0 on."""
    header = {**day.trace.header, "belief": {**day.trace.header["belief"], "gateways": 1}}
    trace, own = Trace(header | {"began": {"at": 0, "wall_s": 5.0}}), dict[int, int]()
    for item in day.trace.items(gateway):
        request: Any = getattr(item, "request", None)
        if isinstance(item, PeerSent | PeerEnded) or request is None:
            trace.add(item)
        elif isinstance(request, RequestView):
            trace.add(item._replace(request=request._replace(id=own.setdefault(request.id, len(own)))))
        else:
            trace.add(item._replace(request=own.setdefault(request, len(own))))
    return trace


def check_equal(found: Recorded, wanted: Recorded) -> None:
    for name in ("arrival", "prompt", "output"):
        assert (getattr(found.workload, name) == getattr(wanted.workload, name)).all()
    assert found.workload.prefixes is not None and wanted.workload.prefixes is not None
    assert (found.workload.prefixes.ids == wanted.workload.prefixes.ids).all()
    for name in COLUMNS:
        assert getattr(found.observed.records, name) == getattr(wanted.observed.records, name)
    assert found.counts == wanted.counts and found.edges == wanted.edges and found.faults == wanted.faults


def test_all_workers_together_are_the_whole_traffic() -> None:
    day = a_shared_day()
    whole = recorded(day.trace)
    together = recorded(Together([a_worker(day, number) for number in range(WORKERS)]))
    check_equal(together, whole)
    assert not together.notes and together.counts["finished"] == 300
    assert together.header["belief"]["gateways"] == WORKERS


def test_what_a_missing_worker_served_is_noted() -> None:
    day = a_shared_day()
    workers = [a_worker(day, number) for number in range(WORKERS)]
    own = [recorded(each).counts["finished"] for each in workers]
    (note,) = recorded(Together(workers[:2])).notes
    assert note.startswith(f"{own[2]} requests of other gateways")
    (alone,) = recorded(workers[0]).notes
    assert alone.startswith(f"{own[1] + own[2]} requests of other gateways")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("policies", {"router": {"round_robin": {}}}, "differ in policies"),
        ("began", {"at": 0, "wall_s": 65.0}, "clocks that began 60 s apart"),
    ],
)
def test_recordings_that_are_not_of_one_gateway_are_refused(field: str, value: Any, text: str) -> None:
    one, other = (a_worker(a_shared_day(60), number) for number in range(2))
    other.header = {**other.header, field: value}
    with pytest.raises(TraceError, match=text):
        Together([one, other])


def test_models_have_the_first_workers_numbers() -> None:
    """Each worker numbers models as it meets them: here the second has two the other way round."""
    from poise.core.event import Arrived, ReplicaUpdated
    from poise.core.spec import ReplicaSpec

    header = {"belief": {"gateways": 1}, "policies": {}, "replicas": [{}, {}]}
    first, second = Trace(header), Trace(header)
    for trace, models in ((first, (0, 1)), (second, (1, 0))):
        for replica, model in enumerate(models):
            trace.add(ReplicaUpdated(1, replica, ReplicaSpec(model=model)))
        trace.add(Arrived(2, RequestView(0, 2, 10, model=models[0])))
    together = Together([first, second])
    views = [item.request for gateway in range(2) for item in together.items(gateway) if isinstance(item, Arrived)]
    assert [(view.id, view.model) for view in views] == [(0, 0), (1, 0)]


def test_the_command_takes_all_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = a_shared_day()
    files = [tmp_path / f"day-worker{number}.jsonl" for number in range(WORKERS)]
    for number, file in enumerate(files):
        a_worker(day, number).save(file)
    names = list(map(str, files))
    assert main(["whatif", *names, "--router", "round_robin", "--json", "-", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "300" in json.dumps(found)
    assert main(["whatif", names[0], names[0], "--router", "round_robin"]) == 2
    assert "given twice" in capsys.readouterr().err
