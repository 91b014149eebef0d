"""SGLang's retraction: the fewest outputs first, and to the end of the queue."""

from __future__ import annotations

from poise.core.policy import Victim
from poise.policies.preempt.fewest_outputs import FewestOutputs
from poise.testing import a_lane, a_request


def test_the_fewest_outputs_give_way_then_the_longest_prompt_then_the_newest() -> None:
    def victim(*decoding: tuple[int, int, int]) -> Victim:
        requests = [(a_request(id=id, prompt_tokens=prompt), produced) for id, prompt, produced in decoding]
        return FewestOutputs().preempt(a_lane(decoding=requests))

    assert victim((1, 50, 9), (2, 50, 3), (3, 50, 5)) == Victim(2)
    assert victim((1, 50, 3), (2, 90, 3), (3, 70, 3)) == Victim(2)
    assert victim((1, 50, 3), (2, 50, 3), (3, 50, 4)) == Victim(2)


def test_where_none_decodes_the_newest_prompt_does() -> None:
    prompts = [(a_request(id=3, prompt_tokens=40), 16), (a_request(id=1, prompt_tokens=40), 0)]
    assert FewestOutputs().preempt(a_lane(prefilling=prompts)) == Victim(1)


def test_who_waits_again_goes_behind_all() -> None:
    policy, lane = FewestOutputs(), a_lane(waiting=[a_request(id=1), a_request(id=2)])
    first, second = lane.queue()
    places = [policy.place(first), policy.place(second), policy.place(first)]
    assert places == sorted(set(places))
