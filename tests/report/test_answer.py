"""The sentence that decides: which policy, by how much, with how much headroom, on how many devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.report.answer import Basis, Carried, decide, nearest
from poise.report.figures import ATTAINMENT, E2E
from poise.report.intervals import TOO_SHORT, Interval
from poise.report.verdict import Length, Verdict

A_WINS = Verdict(ATTAINMENT, "A", (), (), {"B": Interval(-0.25, 0.05), "C": Interval(-0.5, 0.1)})
EVEN = Verdict(ATTAINMENT, "A", ("B", "C"), (), {"B": Interval(-0.01, 0.04), "C": Interval(-0.02, 0.04)}, Length(10, 5))
NAMES = ("A", "B", "C")


def basis(verdicts: dict[float, Verdict], carried: dict[str, Carried] | None = None) -> Basis:
    return Basis(NAMES, verdicts, carried or {}, 8, 2, "H100")


def carrying(**loads: float | None) -> dict[str, Carried]:
    return {name: Carried(load, True) for name, load in loads.items()}


def test_the_winner_its_lead_its_headroom_and_the_devices_that_would_do() -> None:
    assert decide(basis({1.0: EVEN, 2.0: A_WINS}, carrying(A=4.0, B=2.0, C=2.0))) == (
        "Take A: at load 2 it meets the SLO for 25 ± 5 percentage points more of the requests than the next, B, as "
        "good as any at load 1; 4× headroom over the load of now (B and C 2×), so about 4 of the 16 H100 would do."
    )


def test_the_load_nearest_to_1_is_found_by_ratio() -> None:
    assert nearest([0.4, 2.0]) == 2.0 and nearest([2.0, 0.5]) == 2.0 and nearest([0.1, 1.0, 1.1]) == 1.0


def test_a_lead_in_seconds_says_less() -> None:
    faster = Verdict(E2E[0], "A", (), (), {"B": Interval(0.2, 0.02)})
    assert decide(replace(basis({1.0: faster, 0.5: faster}), names=("A", "B"))) == (
        "Take A: at load 1 E2E mean is 200 ms ± 20 ms less than under B, best at load 0.5 too."
    )


def test_what_is_more_than_a_policy_carries_needs_more_devices() -> None:
    answer = decide(basis({1.0: A_WINS}, carrying(A=0.5, B=None, C=None)))
    assert answer.endswith("it carries only 0.5 of the load of now (B and C none), so about 32 H100 would be needed.")
    assert decide(basis({1.0: A_WINS}, carrying(A=None))).endswith("; it carries no load that was tried.")


def test_a_single_load_that_is_carried_shows_no_headroom() -> None:
    answer = decide(basis({1.0: A_WINS}, {"A": Carried(1.0, False)}))
    assert answer.endswith("; it carries the load of now, and how much more would show with --find-collapse.")
    answer = decide(basis({0.5: A_WINS}, {"A": Carried(0.5, False), "B": Carried(None, True)}))
    assert answer.endswith("; it carries 0.5 of the load of now, the highest that was tried (B none).")
    assert "at least 2× headroom" in decide(basis({1.0: A_WINS}, {"A": Carried(2.0, False)}))


def test_among_equals_the_answer_names_what_would_decide() -> None:
    assert decide(basis({1.0: EVEN}, carrying(A=2.0, B=2.0, C=2.0))) == (
        "Take any: by SLO met no difference is beyond chance at load 1 (equal to within 6 %; about 80 seeds in place "
        "of 5 might tell them apart); 2× headroom over the load of now, so about 8 of the 16 H100 would do."
    )


def test_without_intervals_nothing_is_recommended() -> None:
    gaps = {"B": Interval(-0.25, None, TOO_SHORT), "C": Interval(-0.3, None, TOO_SHORT)}
    unknown = Verdict(ATTAINMENT, "A", (), ("B", "C"), gaps, Length(100))
    assert decide(basis({1.0: unknown})) == "No verdict by SLO met: too short to say; 5 seeds might decide."
    assert ", not known at load 1" in decide(basis({1.0: unknown, 2.0: A_WINS}))


def test_loads_of_a_demo_are_not_the_load_of_now() -> None:
    answer = decide(replace(basis({0.9: A_WINS}, carrying(A=0.9, B=0.6, C=0.6)), own=False))
    assert answer.endswith("; it carries load 0.9 (B and C 0.6), so about 12 H100 do what 16 do under B.")
    uneven = replace(basis({0.9: A_WINS}, carrying(A=0.9, B=0.6)), own=False, replicas=0)
    assert answer != decide(uneven) and "do what" not in decide(uneven)


def test_it_depends_on_the_load_where_it_does() -> None:
    b_wins = Verdict(ATTAINMENT, "B", (), (), {"A": Interval(-0.2, 0.1), "C": Interval(-0.3, 0.1)})
    answer = decide(basis({1.0: A_WINS, 2.0: b_wins}, carrying(A=1.5, B=3.0)))
    assert answer == (
        "No policy is the best by SLO met at every load: A leads at load 1, B leads at load 2; highest load carried: "
        "A 1.5, B 3."
    )


@pytest.mark.parametrize(("carried", "expected"), [({}, ""), (carrying(A=4.0), "4× headroom over the load of now, ")])
def test_one_policy_has_headroom_alone(carried: dict[str, Carried], expected: str) -> None:
    alone = Basis(("A",), {1.0: Verdict(ATTAINMENT)}, carried, 8, 1, "H100")
    assert decide(alone) == (f"{expected}so about 2 of the 8 H100 would do." if expected else "")
