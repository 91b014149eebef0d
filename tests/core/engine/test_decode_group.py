"""`DecodeGroup` against a plain list of sequences that each count their own tokens."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from poise.core.engine.decode_group import DecodeGroup
from poise.core.request import RequestView, Sequence


class Member:
    """What a list would keep of a member: its tokens, one by one."""

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.computed = sequence.computed
        self.produced = sequence.produced
        self.shared = sequence.shared

    @property
    def left(self) -> int:
        return self.sequence.output_tokens - self.produced

    def blocks(self, block: int, steps: int = 0) -> int:
        return -(-(self.computed + steps) // block) - self.shared


class GroupOfPlainSequences(RuleBasedStateMachine):
    """Join, leave, advance and finish; after each, every sum must be what the list says."""

    @initialize(block=st.sampled_from([1, 2, 3, 16]), window=st.sampled_from([0, 1, 8, 30]))
    def begin(self, block: int, window: int) -> None:
        self.block, self.window = block, window
        self.group = DecodeGroup(block, window)
        self.members: dict[int, Member] = {}
        self.left: list[Sequence] = []
        self.count = 0

    @rule(computed=st.integers(1, 70), produced=st.integers(1, 4), left=st.integers(1, 40), shared=st.integers(0, 3))
    def join(self, computed: int, produced: int, left: int, shared: int) -> None:
        sequence = Sequence(RequestView(self.count, 0, computed), produced + left, produced)
        sequence.computed = computed
        sequence.shared = min(shared, computed // self.block)
        self.count += 1
        self._enter(sequence)

    @precondition(lambda self: any(sequence.produced < sequence.output_tokens for sequence in self.left))
    @rule(data=st.data())
    def join_again(self, data: st.DataObject) -> None:
        """Who left early comes back where it was, as a paused or preempted request does."""
        able = [sequence for sequence in self.left if sequence.produced < sequence.output_tokens]
        sequence = data.draw(st.sampled_from(able))
        self.left.remove(sequence)
        self._enter(sequence)

    def _enter(self, sequence: Sequence) -> None:
        self.group.join(sequence)
        self.members[sequence.id] = Member(sequence)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.members)))
        member = self.members.pop(number)
        self.group.leave(member.sequence)
        assert (member.sequence.computed, member.sequence.produced) == (member.computed, member.produced)
        self.left.append(member.sequence)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        """Some steps, at most to the next finish or the next that reaches the window, as a held batch goes."""
        most = min(member.left for member in self.members.values())
        if self.window:
            most = min(most, self.group.steps_to_crossing())
        self._advance(data.draw(st.integers(1, most)))

    @precondition(lambda self: self.members)
    @rule(data=st.data(), steps=st.integers(1, 9))
    def pause(self, data: st.DataObject, steps: int) -> None:
        """A member stands aside while the others go on, and comes back with as much to do as before."""
        member = self.members.pop(data.draw(st.sampled_from(sorted(self.members))))
        self.group.leave(member.sequence)
        for _ in range(steps):
            self._advance(1)
        self._enter(member.sequence)

    def _advance(self, steps: int) -> None:
        if self.window:
            self.group.steps_to_crossing()
        self.group.step += steps
        for member in self.members.values():
            member.computed += steps
            member.produced += steps
        done = sorted(number for number, member in self.members.items() if not member.left)
        assert [sequence.id for sequence in self.group.finished()] == done
        for number in done:
            member = self.members.pop(number)
            assert member.sequence.produced == member.sequence.output_tokens
            assert member.sequence.computed == member.computed

    @invariant()
    def the_sums_are_right(self) -> None:
        if not hasattr(self, "group"):
            return
        group, members, step = self.group, list(self.members.values()), self.group.step
        group.check()
        assert list(group) == [member.sequence for member in members]
        assert group.n == len(members)
        for ahead in (0, 1, 2, self.block, 5 * self.block + 1):
            private = sum(member.blocks(self.block, ahead) for member in members)
            assert group.private(step + ahead) == private
            assert group.private_at_most(step + ahead) >= private
            assert group.context(step + ahead) == sum(member.computed + ahead + 1 for member in members)
        now = group.private(step)
        assert group.growth() == group.private(step + 1) - now

    @rule()
    def look_ahead(self) -> None:
        left = [member.left for member in self.members.values()]
        assert self.group.next_finish == (self.group.step + min(left) if left else 1 << 60)

    @invariant()
    def the_window_is_right(self) -> None:
        """Until the next crossing the capped sum grows by one for each member below the window."""
        if not getattr(self, "window", 0):
            return
        group, members = self.group, self.members.values()
        steps = group.steps_to_crossing()
        short = [self.window - 1 - member.computed for member in members]
        assert steps == min([left for left in short if left > 0], default=1 << 60)
        for ahead in {0, 1, min(steps, 50) - 1, min(steps, 50)}:
            if ahead <= steps:
                capped = sum(min(member.computed + ahead + 1, self.window) for member in members)
                assert group.window_context(group.step + ahead) == capped

    @precondition(lambda self: self.members)
    @rule(blocks=st.integers(-1, 30), limit=st.integers(1, 60))
    def room(self, blocks: int, limit: int) -> None:
        """The most steps that fit, counted up one by one."""
        group = self.group
        now = group.private(group.step)
        fits = 0
        while fits < limit and group.private(group.step + fits + 1) - now <= blocks:
            fits += 1
        assert group.steps_within(blocks, limit) == fits


TestGroupOfPlainSequences = GroupOfPlainSequences.TestCase
TestGroupOfPlainSequences.settings = settings(max_examples=120, stateful_step_count=30)
