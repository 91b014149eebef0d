"""What happened in the last minutes, against sums over everything that ever did."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.policies.kit.window import Halves, Window

LENGTH = 100
events = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(0, 50), st.sets(st.integers(1, 4)), st.booleans()),
    max_size=30,
)


@given(events)
def test_sums_over_the_window(events: list[tuple[int, int, int, set[int], bool]]) -> None:
    window, now = Window(LENGTH, 3.0, 45.0), 0
    given_, ended = [], []
    known = [45.0] * 3
    for gap, replica, tokens, ids, ends in events:
        now += gap
        window.move(now, 3)
        if ends:
            window.end(now, replica, tokens)
            ended.append((now, replica, tokens))
        else:
            window.give(now, replica, tokens, tuple(ids))
            given_.append((now, replica, tokens, ids))
        for number in range(3):
            mine = [each for each in given_ if each[1] == number and each[0] >= now - LENGTH]
            outs = [each[2] for each in ended if each[1] == number and each[0] >= now - LENGTH]
            assert window.prompts[number] == sum(each[2] for each in mine)
            if outs:
                known[number] = sum(outs) / len(outs)
                assert window.decodes[number] == known[number] * 3.0
            for extent in range(1, 5):
                assert window.hits(number, extent) == sum(extent in each[3] for each in mine) / max(len(mine), 1)


def test_a_mean_that_grew_old_stays_until_another_is_known() -> None:
    window = Window(LENGTH, 2.0, 45.0)
    window.move(0, 2)
    assert window.decodes == [90.0, 90.0]
    window.end(0, 1, 10)
    window.end(5, 1, 30)
    assert window.decodes == [90.0, 40.0]
    window.move(103, 2)
    assert window.decodes == [90.0, 60.0]  # the first one is out
    window.move(300, 3)
    assert window.decodes == [90.0, 60.0, 90.0]
    window.end(300, 1, 7)
    assert window.decodes == [90.0, 14.0, 90.0]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(1, 9)), max_size=40))
def test_doubled_compares_the_means_of_the_halves(values: list[tuple[int, int, int]]) -> None:
    halves, now = Halves(LENGTH), 0
    seen: list[tuple[int, int, int]] = []
    for gap, key, value in values:
        now += gap
        halves.add(now, key, value)
        seen.append((now, key, value))
        halves.move(now)
        for each in range(3):
            older = [v for at, k, v in seen if k == each and now - LENGTH <= at < now - LENGTH // 2]
            newer = [v for at, k, v in seen if k == each and at >= now - LENGTH // 2]
            doubled = len(older) > 1 and len(newer) > 1 and sum(newer) / len(newer) >= 2 * sum(older) / len(older)
            assert halves.doubled(each) == doubled


def test_what_was_forgotten_begins_anew_and_nothing_is_kept_of_the_past() -> None:
    halves = Halves(LENGTH)
    for now, value in ((0, 1), (0, 1), (60, 9), (60, 9)):
        halves.add(now, 5, value)
    halves.move(70)
    assert halves.doubled(5)
    halves.forget(5)
    assert not halves.doubled(5)
    for now, value in ((80, 1), (80, 1), (140, 9), (140, 9)):
        halves.add(now, 5, value)
    halves.move(140)  # the values from before, now out, do not count against the new ones
    assert halves.doubled(5)
    halves.move(500)
    assert not halves._keys and not halves._newer and not halves._older
