"""A diary changes nothing, and what it says of random worlds hangs together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.action import Move, Wake
from poise.core.event import Reported
from poise.core.records.records import FINISHED, NOT_YET, Records
from poise.core.records.request_log import RequestLog, RequestLogs
from poise.core.spec import Engine, Fault
from poise.core.units import SECOND, seconds
from poise.report.requests import requests_frame
from poise.report.story import story_lines
from poise.report.story_format import StoryFormatter
from poise.testing.cost import LinearCost
from poise.workload.table import Workload
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_blame import Doorkeeper, Once, same_prompt, simulated, workload
from tests.sim.test_exact import COLUMNS

MARKS = {
    "arrived", "came_back", "decided", "sent", "refused", "turned_down", "left", "queued", "admitted", "computed",
    "first_token", "decodes", "pulling", "pulled", "missed", "preempted", "moves", "stayed", "stands", "moved", "lost",
    "again", "copied", "goes_on",
}  # fmt: skip


@pytest.mark.deep
@given(cases(), st.integers(0, 13))
@settings(max_examples=examples(150))
def test_a_diary_changes_nothing_and_hangs_together(case: Case, row: int) -> None:
    row %= len(case.workload)
    diary = RequestLog(row)
    run = case.build(one_step=False, check=False, diary=diary).simulate()
    plain = case.build(one_step=False, check=False, blame=True).simulate()
    assert all(getattr(run.records, name) == getattr(plain.records, name) for name in COLUMNS)
    assert run.blame == plain.blame
    stamps = [happening.at for happening in diary.happenings]
    assert stamps == sorted(stamps)
    _check(diary, run.records, row)
    found = requests_frame(run, case.workload).filter(request=row)
    if len(found):
        lines = list(story_lines(diary.happenings, found.row(0, named=True), seconds(run.ended_at)))
        assert all(line.text and line.since_s >= -1e-12 for line in lines)
        assert lines[-1].at_s == (found["ended_s"][0] if found["ended_s"][0] is not None else seconds(run.ended_at))


@given(cases())
@settings(max_examples=40)
def test_diaries_of_one_run_are_those_of_a_run_each(case: Case) -> None:
    diaries = RequestLogs(range(0, len(case.workload), 3))
    case.build(one_step=False, check=False, diary=diaries).simulate()
    for row, book in diaries.logs.items():
        alone = RequestLog(row)
        case.build(one_step=False, check=False, diary=alone).simulate()
        assert book.happenings == alone.happenings


def _check(diary: RequestLog, records: Records, row: int) -> None:
    """What the diary has and what the records have must be the same."""
    words = [happening.what for happening in diary.happenings]
    assert set(words) <= MARKS
    preempted = words.count("preempted")  # the record counts those of a copy too, a diary follows one of the two
    assert preempted <= records.preemptions[row] if "copied" in words else preempted == records.preemptions[row]
    assert words.count("arrived") <= 1
    if records.first_token_at[row] != NOT_YET:
        assert records.first_token_at[row] in [e.at for e in diary.happenings if e.what in ("first_token", "computed")]
    upset = {"preempted", "lost", "moved", "stands", "pulled", "missed", "moves", "goes_on"} & set(words)
    if "copied" in words and records.output_tokens[row] == 1:
        upset.add("copied")  # a copy whose first token is its last has won before it is followed
    if records.status[row] == FINISHED and not upset:
        admitted = next(e for e in diary.happenings if e.what == "admitted")
        computed = sum(e.details["tokens"] for e in diary.happenings if e.what == "computed" and e.details["whole"])
        assert admitted.details["computed"] + computed >= admitted.details["need"]


def test_there_are_words_for_all_that_happens() -> None:
    assert set(StoryFormatter({})._formats) == MARKS


def lived(load: Workload, row: int, **options: Any) -> list[str]:
    """The story of a request as `seconds place: what`, the same fast and step by step."""
    fast, slow = (_row(load, row, one_step=one_step, **options) for one_step in (False, True))
    assert fast == slow
    return fast


def _row(load: Workload, row: int, **options: Any) -> list[str]:
    diary = RequestLog(row)
    run = simulated(load, diary=diary, **options)
    found = requests_frame(run, load).row(row, named=True)
    lines = story_lines(diary.happenings, found, seconds(run.ended_at))
    return [f"{line.at_s:g} {line.place}: {line.text}" for line in lines]


def test_of_a_prompt_that_waits_for_the_step_under_way() -> None:
    assert lived(workload((0, 5, 3), (20, 100, 1)), 1) == [
        "20 gateway: arrives with a prompt of 100 tokens",
        "20 gateway: RoundRobin chooses replica 0, of 1 that can take it",
        "20 replica 0: is first in the queue; 1 request running",
        "26 replica 0: is admitted after 6 s",
        "137 replica 0: computes tokens 1 to 100 in 111 s (110 s alone)",
        "137 replica 0: its first token",
        "137 replica 0: finished with 1 token",
    ]


def test_of_a_cold_cache() -> None:
    """Chunks of 50 tokens; 80 of 100 were computed for another request long ago."""
    cold = Engine(token_budget=50, max_sequences=16, block_tokens=1, prefix_caching=False)
    found = lived(workload((0, 100, 1), (500, 100, 1), prefixes=same_prompt(2, 80)), 1, engine=cold)
    assert found[3:6] == [
        "500 replica 0: is admitted at once; 0 of 100 tokens are in the prefix cache, 80 in one that never evicts",
        "560 replica 0: computes tokens 1 to 50 in 60 s (60 s missed in the cache)",
        "620 replica 0: computes tokens 51 to 100 in 60 s (30 s alone, 30 s missed in the cache)",
    ]


def test_of_a_pair() -> None:
    found = lived(workload((0, 5, 2), (0, 9, 2)), 1, roles=("prefill", "decode"), link_bw=1000.0, link_latency_s=2.0)
    assert found[1:] == [
        "0 gateway: RoundRobin chooses replica 0, of 1 that can take it",
        "0 gateway: RoundRobin chooses replica 1 for its output, of 1 that can take it",
        "0 replica 0: queues behind 1 request; nothing is running, 5 tokens to compute before its own",
        "0 replica 0: is admitted at once",
        "24 replica 0: computes tokens 1 to 9 in 24 s (19 s alone)",
        "24 replica 1: queues behind 1 request; nothing is running, 5 tokens to compute before its own",
        "24 replica 1: is admitted at once",
        "24 replica 1: fetches the KV of 8 tokens from replica 0",
        "38 replica 1: has it after 14 s, 4 s of them waiting for a link",
        "53 replica 1: computes token 9 in 12 s (11 s alone)",
        "53 replica 1: its first token",
        "64 replica 1: finished with 2 tokens, 11 s after the first, 11 s each",
    ]


def test_of_a_move() -> None:
    cost = LinearCost(step_s=10.0, prompt_s=1.0, token_bytes=1000)
    found = lived(
        workload((0, 40, 12), (75, 1, 1)), 0, roles=("mixed", "mixed"), cost=cost, mover=Once(), link_bw=1000.0,
        link_latency_s=2.0,
    )  # fmt: skip
    assert found[5:] == [
        "50 replica 0: its first token",
        "75 replica 0: is to move to replica 1",
        "120 replica 0: pauses after 8 tokens until the rest of its KV has arrived",
        "127 replica 1: has moved from replica 0 after a pause of 7 s",
        "127 replica 1: decodes on behind 8 tokens",
        "167 replica 1: finished with 12 tokens, 117 s after the first, 10.64 s each",
    ]


def test_of_one_that_gave_way() -> None:
    found = lived(workload((0, 5, 5), (0, 4, 5)), 1, blocks=12)
    assert found[6:] == [
        "31 replica 0: is preempted for lack of KV blocks; its 5 computed tokens may be evicted",
        "64 replica 0: is admitted after 33 s; 3 of 6 tokens are in the prefix cache",
        "77 replica 0: computes tokens 4 to 6 in 13 s",
        "77 replica 0: decodes on behind 3 tokens",
        "99 replica 0: finished with 5 tokens, 80 s after the first, 20 s each",
    ]


def test_of_a_lost_replica() -> None:
    load, faults, roles = workload((0, 5, 4)), (Fault(30.0, "lost", 0),), ("mixed", "mixed")
    assert lived(load, 0, roles=roles, faults=faults)[6:] == [
        "30 replica 0: its work here is lost with the replica",
        "30 gateway: RoundRobin chooses replica 1, of 1 that can take it",
        "30 replica 1: is first in the queue; nothing is running; its client has 2 tokens of it already",
        "30 replica 1: is admitted at once",
        "47 replica 1: computes tokens 1 to 7 in 17 s",
        "47 replica 1: decodes on behind 3 tokens",
        "58 replica 1: finished with 4 tokens, 43 s after the first, 14.33 s each",
    ]
    again = lived(load, 0, roles=roles, faults=faults, resume=False)
    assert again[8] == "30 gateway: starts from the beginning; the tokens that its client had are discarded"
    alone = lived(load, 0, faults=faults)
    assert alone[6:] == [
        "30 replica 0: its work here is lost with the replica",
        "30 gateway: is rejected: no replica serves model 0",
        "30 gateway: ends lost",
    ]


def test_of_the_gateway() -> None:
    """Nothing is up until 20 s; then the router holds until 50 s."""
    held = lived(workload((5, 5, 1)), 0, router=Doorkeeper(50 * SECOND), faults=(Fault(20.0, "join", 0),))
    assert held[:5] == [
        "5 gateway: arrives with a prompt of 5 tokens",
        "5 gateway: waits: no replica can take it, or others are held before it",
        "20 gateway: Doorkeeper holds it: not yet",
        "50 gateway: Doorkeeper chooses replica 0, of 1 that can take it",
        "50 replica 0: is first in the queue; nothing is running",
    ]
    too_long = "is rejected: prompt and one more token exceed the 1000 tokens that a replica can hold"
    assert lived(workload((0, 5, 1), (0, 5000, 1), retry=1), 1) == [
        "0 gateway: arrives with a prompt of 5,000 tokens",
        f"0 gateway: {too_long}",
        "1 gateway: its client sends it again, attempt 2",
        f"1 gateway: {too_long}",
        "1 gateway: ends rejected",
    ]
    impatient = workload((0, 5, 9), (0, 5, 9), timeout=np.array([0, 3 * SECOND], "i8"))
    assert lived(impatient, 1)[4:] == [
        "3 replica 0: was computing tokens 1 to 5 in 3 s (2.25 s alone)",
        "3 gateway: its client leaves: its patience is over",
        "3 replica 0: ends timed out",
    ]


def test_a_wake_that_is_yet_to_come_dates_nothing() -> None:
    diary = RequestLog(0)
    diary.add(Reported(5, 5, {}, ()))
    diary.add(Wake(70))
    diary.add(Move(0, 0, 1))
    assert [happening.at for happening in diary.happenings] == [5]
