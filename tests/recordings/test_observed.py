"""What a gateway sees, where it can be counted by hand."""

from __future__ import annotations

import numpy as np

from poise.core.records.records import FINISHED, Records, Run
from poise.recordings.observed import guessed_hits, seen
from poise.workload.table import Prefixes, Workload


def a_run(rows: list[tuple[int, int, int, int]]) -> Run:
    """(replica, sent, first token, end) of each request."""
    records = Records(len(rows))
    for row, (replica, sent, first, end) in enumerate(rows):
        records.replica[row], records.status[row] = replica, FINISHED
        records.dispatched_at[row], records.first_token_at[row], records.ended_at[row] = sent, first, end
    return Run(records, [])


def a_workload(lengths: list[tuple[int, int]]) -> Workload:
    prompt, output = np.array(lengths, dtype=np.int32).T
    return Workload(np.arange(len(lengths), dtype=np.int64), prompt, output)


def test_a_request_alone() -> None:
    to_first, behind = seen(a_workload([(1000, 11)]), a_run([(0, 0, 50, 150)]), np.array([600.0]), 512)
    assert to_first.tolist() == [[1, 400, 400 * 600 + 400 * 401 / 2, 0, 0]]
    assert behind.tolist() == [[10, 0, 0, 10, 10 * 1005.5]]


def test_two_beside_one_another() -> None:
    """The second comes while the first decodes, for the last half of it; a third is elsewhere."""
    run = a_run([(0, 0, 100, 200), (0, 120, 150, 250), (1, 0, 10, 500)])
    to_first, behind = seen(a_workload([(10, 11), (20, 11), (30, 11)]), run, np.zeros(3), 8)
    assert to_first[1].tolist() == [3.5, 20, 210, 3.5, 3.5 * 15.5], "three steps of eight tokens, and half of one begun"
    assert behind[0].tolist() == [10, 20, 210, 10 * 1.5, 10 * (15.5 + 0.5 * 25.5)]
    assert behind[2].tolist() == [10, 0, 0, 10, 10 * 35.5]


def test_who_is_ahead_counts() -> None:
    run = a_run([(0, 0, 100, 200), (0, 50, 150, 250)])
    to_first, _ = seen(a_workload([(10, 11), (20, 11)]), run, np.zeros(2), 8192)
    assert to_first[0].tolist()[:2] == [1, 10]
    assert to_first[1].tolist()[:2] == [1, 30]


def test_hits_are_guessed_by_what_went_there_before() -> None:
    workload = a_workload([(10, 1), (12, 1), (12, 1), (8, 1)])
    workload.prefixes = Prefixes(
        np.array([0, 2, 4, 6, 8]), np.array([1, 2, 1, 3, 1, 3, 1, 2]), np.array([4, 8] * 4, dtype=np.int32)
    )
    assert guessed_hits(workload, [0, 0, 1, 0], [1000, 1000]).tolist() == [0, 4, 0, 7]
    assert guessed_hits(workload, [0, 0, 1, 0], [4, 4]).tolist() == [0, 4, 0, 4]
    workload.prefixes = None
    assert guessed_hits(workload, [0, 0, 1, 0], [4, 4]).tolist() == [0, 0, 0, 0]
