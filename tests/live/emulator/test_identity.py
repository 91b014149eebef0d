"""Chained blocks: what two requests share is their longest common prefix of whole blocks, answers included."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.engine.replica import Replica
from poise.core.request import RequestView, Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER
from poise.live.emulator.drive import Driver
from poise.live.emulator.events import BlockRemoved, BlockStored, Ledger
from poise.live.emulator.identity import KeepOutputs, chain, ends, salted
from poise.policies import Policies
from poise.testing import LinearCost, check_replica
from tests.depth import examples
from tests.live.emulator.hand import Kept

BLOCK = 4
TOKENS = st.lists(st.integers(0, 1), max_size=24).map(lambda tokens: array("Q", tokens))


@given(TOKENS, TOKENS)
def test_hashes_agree_as_far_as_tokens_do(one: array[int], other: array[int]) -> None:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    ours, theirs = chain(one, BLOCK), chain(other, BLOCK)
    assert len(ours) == len(one) // BLOCK
    agree = [mine == yours for mine, yours in zip(ours, theirs, strict=False)]
    assert agree == [place < same // BLOCK for place in range(len(agree))]


def test_a_salt_parts_equal_prompts() -> None:
    tokens = array("Q", range(16))
    assert not set(chain(tokens, BLOCK)) & set(chain(tokens, BLOCK, salted("tenant")))
    assert salted("") == 0
    assert ends(3, BLOCK) == (4, 8, 12)


class Rig:
    """A replica with a ledger, under a clock moved by hand."""

    def __init__(self, blocks: int = 40, **engine: int) -> None:
        keep = KeepOutputs()
        self.ledger = Ledger(BLOCK)
        self.replica = keep.replica = Replica(
            Engine(block_tokens=BLOCK, **engine),
            LinearCost(step_s=1e-9),
            blocks,
            Policies(cache=keep),
            listener=self.ledger.listen,
        )
        self.driver = Driver(self.replica, left=lambda sequence: self.ledger.release(sequence.request.ids))
        self.believed: dict[int, tuple[int | None, tuple[int, ...]]] = {}
        self.count = 0

    def send(self, prompt: array[int], output: array[int], at: int) -> Sequence:
        ids = chain(prompt + output[:-1], BLOCK)
        request = RequestView(self.count, at, len(prompt), 0, ids, ends(len(ids), BLOCK))
        self.count += 1
        sequence = Sequence(request, len(output), output_id=0 if ids else -1)
        self.ledger.bring(ids, prompt + output)
        self.driver.add(sequence, Kept(), at)
        return sequence

    def run(self) -> None:
        while self.driver.next_at < NEVER:
            self.driver.advance(self.driver.next_at)
            self.hear()

    def hear(self) -> None:
        """Follow the events as a gateway does, and compare with the truth."""
        for event in self.ledger.take():
            if isinstance(event, BlockStored):
                parent = event.parent_block_hash
                for place, each in enumerate(event.block_hashes):
                    assert each not in self.believed, "stored twice"
                    self.believed[each] = parent, tuple(event.token_ids[place * BLOCK : (place + 1) * BLOCK])
                    parent = each
            elif isinstance(event, BlockRemoved):
                for each in event.block_hashes:
                    del self.believed[each]
        assert self.believed.keys() == self.replica.pool.nodes.keys()


def test_the_next_turn_finds_prompt_and_answer() -> None:
    """Of 10 + 7 tokens 16 were computed: four blocks, three of which the turn's 15th token does not complete."""
    rig = Rig()
    prompt, answer = array("Q", range(10)), array("Q", range(100, 107))
    rig.send(prompt, answer, 0)
    rig.run()
    again = rig.send(prompt + answer + array("Q", range(200, 205)), array("Q", [300]), rig.driver.now)
    rig.run()
    assert again.cached == 16


def test_a_repeated_prompt_computes_its_last_block_again() -> None:
    """vLLM's rule: 20 tokens in 5 blocks, of which the last one is always computed."""
    rig = Rig()
    prompt = array("Q", range(20))
    first = rig.send(prompt, array("Q", [1]), 0)
    rig.run()
    second = rig.send(prompt, array("Q", [1]), rig.driver.now)
    rig.run()
    assert (first.cached, second.cached) == (0, 16)


def test_an_answer_shorter_than_a_block_is_found_too() -> None:
    """No block of the prompt is whole, nothing is cached yet, and still the answer's blocks are kept."""
    rig = Rig()
    rig.send(array("Q", [1]), array("Q", range(10, 20)), 0)
    rig.run()
    assert len(rig.replica.pool.nodes) == 2  # 1 + 10 - 1 tokens computed
    rig.replica.pool.check(0)


@pytest.mark.deep
@given(st.data())
@settings(max_examples=examples(120))
def test_events_follow_the_cache_and_blocks_balance(data: st.DataObject) -> None:
    """Random prompts with common prefixes on a cache that is too small for them, some given up."""
    rig = Rig(blocks=data.draw(st.integers(12, 40)), token_budget=data.draw(st.integers(8, 64)), max_sequences=4)
    at = 0
    for _ in range(data.draw(st.integers(1, 14))):
        at += data.draw(st.sampled_from((0, 500, 3_000, 20_000)))
        prompt = array("Q", [9]) + data.draw(TOKENS)
        output = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=20).map(lambda each: array("Q", each)))
        sequence = rig.send(prompt, output, at)
        rig.hear()
        if data.draw(st.integers(0, 4)) == 0:
            at += data.draw(st.integers(0, 9_000))
            rig.driver.advance(at)
            rig.driver.abort(sequence.id, at)
            rig.hear()
        check_replica(rig.replica, rig.driver.now, rig.driver.now == rig.driver._stepped_at)
    rig.run()
    assert not rig.replica.sequences and rig.replica.pool.held == rig.replica.pool.explicit == 0
    assert len(rig.ledger) == len(rig.replica.pool.nodes), "the ledger keeps what the cache keeps, and no more"
    for parent, tokens in rig.believed.values():
        assert chain(array("Q", tokens), BLOCK, parent or 0)[0] in rig.believed
