"""Faults as lines over time, and as marks on the map of the replicas."""

from __future__ import annotations

from poise.core.records.records import Occurrence, Records, Run
from poise.core.units import SECOND
from poise.report.axis import fit
from poise.report.faults import fault_curves, marks


def a_run(*happened: Occurrence) -> Run:
    return Run(Records(0), [], ended_at=10 * SECOND, faults=list(happened))


def test_a_fault_is_a_line_at_its_replica_up_to_the_end_of_the_run() -> None:
    run = a_run(Occurrence(SECOND, 2 * SECOND, "slow", 1), Occurrence(3 * SECOND, 1 << 62, "link_slow", 0))
    late = a_run(Occurrence(11 * SECOND, 12 * SECOND, "slow", 1))
    assert fault_curves(run) == {
        "faults": {"slow 0": ([1.0, 2.0], [1.0, 1.0]), "link_slow 1": ([3.0, 10.0], [0.0, 0.0])}
    }
    assert fault_curves(late) == fault_curves(a_run()) == {}


def test_a_mark_stands_in_its_row_and_says_what_it_is() -> None:
    run = a_run(Occurrence(SECOND, 2 * SECOND, "slow", 5), Occurrence(3 * SECOND, 3 * SECOND, "lost", 4))
    drawn = marks(fault_curves(run), fit([0.0, 10.0], 0.0, 100.0), [4, 5], 40.0)
    assert drawn.count("<rect") == 2
    assert "replica 5 slow at 1 s until 2 s" in drawn
    assert "replica 4 lost at 3 s<" in drawn
    assert 'y="24.0"' in drawn.split("</g>")[0]  # the second of two rows of 20
    assert marks(fault_curves(run), fit([0.0, 10.0], 0.0, 100.0), [0], 40.0) == ""
