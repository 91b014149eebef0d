"""The sequence of KV events: gaps, replays, restarts; and that what is believed in the end is so."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from poise.live.telemetry.kv_events import Change
from poise.live.telemetry.kv_feed import KEPT, Feed, ReplayRequest, Step, Sync
from tests.live.requests.damage import DAMAGE, Damage, damaged
from tests.live.requests.engines import Cache, Publisher

CLEARED = Change(cleared=True)


def _engine(kept: int = 100, seed: int = 0) -> Publisher:
    return Publisher(Cache(2, seed), kept)


def _published(engine: Publisher, count: int) -> list[tuple[int, bytes]]:
    return [engine.publish(engine.cache.store([100 + engine.number, 1])) for _ in range(count)]


def _answer(feed: Feed, engine: Publisher, steps: list[Step]) -> list[Step]:
    """Answer questions until there is none; all the steps that are no question."""
    done: list[Step] = []
    for step in steps:
        if not isinstance(step, ReplayRequest):
            done.append(step)
            continue
        for number, payload in engine.replay(step.start):
            more = feed.replayed(number, payload)
            done += _answer(feed, engine, more)
            if any(isinstance(each, ReplayRequest) for each in more):
                break  # an older question's answers count no more
        else:
            done += _answer(feed, engine, feed.replay_ended())
    return done


def test_from_the_first_message_all_is_known() -> None:
    feed, engine = Feed(can_replay=False), _engine()
    assert feed.sync is Sync.WAITING and feed.start() == []
    for number, payload in _published(engine, 3):
        [change] = feed.message(number, payload)
        assert isinstance(change, Change) and len(change.entered) == 1
    assert feed.sync is Sync.SYNCED and feed.whole and len(feed.blocks) == 3


def test_earlier_events_are_requested_at_the_start() -> None:
    feed, engine = Feed(can_replay=True), _engine()
    _published(engine, 4)
    assert feed.start() == [ReplayRequest(0)]
    steps = [step for number, payload in engine.replay(0) for step in feed.replayed(number, payload)]
    assert len(steps) == 4 and feed.sync is Sync.REPLAYING
    assert feed.replay_ended() == [] and feed.sync is Sync.SYNCED and feed.whole


def test_a_gap_behind_the_first_replay_is_a_gap() -> None:
    """The engine went on while it answered, and some of what it said meanwhile was lost."""
    feed, engine = Feed(can_replay=True), _engine()
    _published(engine, 4)
    feed.start()
    for number, payload in engine.replay(0):
        feed.replayed(number, payload)
    for number, payload in _published(engine, 6):
        if number in (4, 8, 9):
            assert feed.message(number, payload) == []
    steps = feed.replay_ended()
    assert isinstance(steps[0], Change) and steps[1:] == [ReplayRequest(4)]
    assert len(_answer(feed, engine, steps[1:])) == 5 and feed.sync is Sync.SYNCED and feed.whole
    assert feed.counts == {"gaps": 1}


def test_an_engine_that_has_not_begun_is_waited_for() -> None:
    feed, engine = Feed(can_replay=True), _engine()
    assert feed.start() == [ReplayRequest(0)]
    feed.replay_failed()
    assert feed.sync is Sync.WAITING
    [(number, payload)] = _published(engine, 1)
    assert len(feed.message(number, payload)) == 1 and feed.whole


def test_a_gap_is_filled_and_nothing_dropped() -> None:
    feed, engine = Feed(can_replay=True), _engine()
    messages = _published(engine, 6)
    feed.message(*messages[0])
    assert feed.message(*messages[3]) == [ReplayRequest(0)] and feed.sync is Sync.REPLAYING
    assert feed.message(*messages[4]) == []  # kept
    _published(engine, 1)
    assert CLEARED not in _answer(feed, engine, [ReplayRequest(0)])
    assert len(feed.blocks) == 7 and feed.whole and feed.counts == {"gaps": 1}
    assert feed.message(*messages[5]) == []  # came late; the replay had brought it


def test_a_gap_that_cannot_be_filled_drops_all() -> None:
    feed, engine = Feed(can_replay=False), _engine()
    messages = _published(engine, 4)
    feed.message(*messages[0])
    cleared, change = feed.message(*messages[2])
    assert cleared == CLEARED and isinstance(change, Change) and len(change.entered) == 1
    assert not feed.whole and len(feed.blocks) == 1 and feed.counts == {"gaps": 1, "losses": 1}
    assert len(feed.message(*messages[3])) == 1


def test_a_buffer_that_rolled_over_drops_all() -> None:
    feed, engine = Feed(can_replay=True), _engine(kept=2)
    messages = _published(engine, 9)
    feed.message(*messages[0])
    done = _answer(feed, engine, feed.message(*messages[8]))
    assert CLEARED in done and len(feed.blocks) == 2 and not feed.whole


def test_no_answer_drops_all_and_goes_on() -> None:
    feed, engine = Feed(can_replay=True), _engine()
    messages = _published(engine, 9)
    feed.message(*messages[0])
    for number in (3, 4, 7):
        feed.message(*messages[number])
    assert [step == CLEARED for step in feed.replay_failed()] == [True, False, False, True, False]
    assert feed.sync is Sync.SYNCED and len(feed.blocks) == 1
    assert len(feed.message(*messages[8])) == 1


def test_a_clear_of_the_engine_makes_it_whole_again() -> None:
    feed, engine = Feed(can_replay=False), _engine()
    messages = _published(engine, 4)
    feed.message(*messages[2])
    assert not feed.whole
    feed.message(*messages[3])
    feed.message(*engine.publish(engine.cache.clear()))
    assert feed.whole and len(feed.blocks) == 0


def test_numbers_that_go_back_are_another_process() -> None:
    feed, before, after = Feed(can_replay=True), _engine(seed=1), _engine(seed=2)
    for each in _published(before, 5):
        feed.message(*each)
    messages = _published(after, 4)
    done = _answer(feed, after, feed.message(*messages[2]))
    assert done[0] == CLEARED and len(feed.blocks) == 4 and feed.whole and feed.counts["restarts"] == 1


def test_numbers_that_a_replay_has_brought_but_other_bytes_are_another_process() -> None:
    feed, before, after = Feed(can_replay=True), _engine(seed=1), _engine(seed=2)
    messages = _published(before, 5)
    _answer(feed, before, feed.start())
    assert feed.message(*messages[3]) == [] and feed.message(*messages[4]) == []  # they came by both ways
    assert _answer(feed, after, feed.message(*_published(after, 1)[0]))[0] == CLEARED
    assert len(feed.blocks) == 1 and feed.whole


def test_a_restart_behind_the_same_numbers_is_found_by_the_last_message() -> None:
    feed, before, after = Feed(can_replay=True), _engine(seed=1), _engine(seed=2)
    for each in _published(before, 3):
        feed.message(*each)
    messages = _published(after, 6)
    done = _answer(feed, after, feed.message(*messages[4]))  # looks like a gap
    assert done[0] == CLEARED and feed.counts["restarts"] == 1
    assert len(feed.blocks) == 6 and feed.whole


def test_after_a_broken_connection_the_last_message_must_be_found_again() -> None:
    feed, before, after = Feed(can_replay=True), _engine(seed=1), _engine(seed=2)
    for each in _published(before, 3):
        feed.message(*each)
    messages = _published(after, 4)
    steps = feed.interrupted()
    assert steps == [ReplayRequest(2)]
    assert feed.message(*messages[3]) == []  # the very number that was due; it is kept
    assert _answer(feed, after, steps)[0] == CLEARED
    assert len(feed.blocks) == 4
    assert CLEARED not in _answer(feed, after, feed.interrupted())
    assert CLEARED not in feed.message(*_published(after, 1)[0]) and len(feed.blocks) == 5


def test_without_proof_nothing_is_believed_after_a_broken_connection() -> None:
    silent, dumb = Feed(can_replay=True), Feed(can_replay=False)
    for feed in (silent, dumb):
        feed.message(*_published(_engine(), 1)[0])
    assert silent.interrupted() == [ReplayRequest(0)] and silent.replay_failed() == [CLEARED]
    assert dumb.interrupted() == [CLEARED]
    assert {silent.sync, dumb.sync} == {Sync.WAITING}


def test_an_unreadable_message_drops_all() -> None:
    feed, engine = Feed(can_replay=False), _engine()
    feed.message(*_published(engine, 1)[0])
    assert feed.message(1, b"\xc1") == [CLEARED]
    assert not feed.whole and feed.counts == {"unreadable": 1} and len(feed.blocks) == 0


NUMBERS = st.integers(0, 5) | st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(NUMBERS, DAMAGE, st.booleans()), max_size=8), st.booleans())
def test_damaged_messages_do_no_lasting_harm(noise: list[tuple[int, Damage, bool]], can_replay: bool) -> None:
    """Whatever they are and whichever numbers they bear: an engine that starts anew is followed."""
    feed, cache = Feed(can_replay), Cache(2, seed=1)
    feed.start()
    for number, damage, query in noise:
        payload = damaged(cache.message([cache.store([100 + number % 7, 1])]), damage)
        assert isinstance(feed.replayed(number, payload) if query else feed.message(number, payload), list)
    feed.reset()
    engine = _engine(seed=2)
    for each in _published(engine, 3):
        _answer(feed, engine, feed.message(*each))
    assert feed.whole and len(feed.blocks) == 3


def test_what_is_kept_for_a_replay_is_bounded() -> None:
    feed, engine = Feed(can_replay=True), _engine()
    payload = _published(engine, 1)[0][1]
    steps = [step for number in range(5, 7 + KEPT) for step in feed.message(number, payload)]
    assert feed.sync is Sync.SYNCED and CLEARED in steps


def test_a_lost_engine_starts_afresh() -> None:
    feed, before, after = Feed(can_replay=True), _engine(seed=1), _engine(seed=2)
    for each in _published(before, 3):
        feed.message(*each)
    assert feed.reset() == [CLEARED] and feed.sync is Sync.WAITING
    assert feed.message(*_published(after, 1)[0])[0] != CLEARED


class _Network:
    """One engine, its feed, and what is on its way between them; everything may be late, lost or cut off."""

    def __init__(self, can_replay: bool) -> None:
        self.feed = Feed(can_replay)
        self.engine = _engine(kept=6)
        self.live: deque[tuple[int, bytes]] = deque()
        self.ask: ReplayRequest | None = None
        self.answers: deque[tuple[int, bytes] | str] = deque()
        self.believed: set[int] = set()
        self.hear(self.feed.start())

    def hear(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, ReplayRequest):
                self.ask, self.answers = step, deque()
            else:
                self.believed = (set() if step.cleared else self.believed) - set(step.left) | set(step.entered)

    def publish(self, arrives: bool) -> None:
        cache = self.engine.cache
        there = [each for each, copies in cache.copies.items() if copies]
        event = cache.remove(there[0]) if len(there) > 3 else cache.store([cache.seed, self.engine.number])
        messages = self.engine.publish(event)
        if arrives:
            self.live.append(messages)

    def restart(self) -> None:
        self.engine = _engine(kept=6, seed=self.engine.cache.seed + 1)
        if self.answers:
            self.answers = deque([self.answers[0], "failed"])
        while self.live:  # what came over the connection is told before that it broke
            self.deliver()
        self.hear(self.feed.interrupted())

    def serve(self) -> None:
        if self.ask is not None:
            self.answers = deque([*self.engine.replay(self.ask.start), "ended"])
            self.ask = None

    def answer(self) -> None:
        if not self.answers:
            return
        each = self.answers.popleft()
        if isinstance(each, tuple):
            self.hear(self.feed.replayed(*each))
        else:
            self.hear(self.feed.replay_ended() if each == "ended" else self.feed.replay_failed())

    def deliver(self) -> None:
        if self.live:
            self.hear(self.feed.message(*self.live.popleft()))

    def settle(self) -> None:
        while self.live or self.ask or self.answers:
            self.deliver()
            self.serve()
            self.answer()


STEPS = st.lists(st.sampled_from(["publish", "publish", "drop", "deliver", "deliver", "serve", "answer", "restart"]))


@settings(max_examples=300)
@given(STEPS, st.booleans())
def test_what_is_believed_in_the_end_is_so(steps: list[str], can_replay: bool) -> None:
    """Whatever was lost, late or restarted: once all has arrived, nothing is believed that the engine does not hold."""
    net = _Network(can_replay)
    for step in steps:
        if step == "drop":
            net.publish(arrives=False)
        elif step == "publish":
            net.publish(arrives=True)
        else:
            getattr(net, step)()
    net.settle()
    net.publish(arrives=True)
    net.settle()
    assert net.feed.sync is Sync.SYNCED
    held = net.engine.cache.held()
    assert net.believed <= held
    if net.feed.whole:
        assert net.believed == held
