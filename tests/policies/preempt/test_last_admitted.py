"""Who was admitted last gives way: prompts under way before decodes."""

from __future__ import annotations

from poise.core.policy import Victim
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.testing import a_lane, a_request


def test_the_newest_prompt_under_way_gives_way_first() -> None:
    lane = a_lane(
        prefilling=[(a_request(id=3), 16), (a_request(id=1), 0)],
        decoding=[(a_request(id=5), 1), (a_request(id=4), 2)],
    )
    assert LastAdmitted().preempt(lane) == Victim(1)


def test_without_prompts_the_newest_decode_does() -> None:
    lane = a_lane(decoding=[(a_request(id=5), 1), (a_request(id=4), 2)])
    assert LastAdmitted().preempt(lane) == Victim(4)
    assert LastAdmitted(swap=True).preempt(lane) == Victim(4, swap=True)
