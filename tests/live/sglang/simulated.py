"""What a simulated SGLang does with a world, step by step."""

from __future__ import annotations

from poise.core.engine.outcome import PREEMPTED
from poise.core.engine.replica import Replica
from poise.core.request import RequestView, Sequence
from poise.core.spec import Engine
from poise.core.units import NEVER, SECOND
from poise.policies import Policies
from poise.policies.batch.sglang import SGLang
from poise.testing.cost import LinearCost
from tests.live.sglang.asks import Ask, Step, World


def simulated(world: World) -> list[Step]:
    """What the replica of the simulator does, each step a second long."""
    engine = Engine(
        token_budget=world.chunk or 1 << 30, max_sequences=world.sequences, block_tokens=world.page,
        prefix_caching=world.caching,
    )  # fmt: skip
    sglang = SGLang(
        max_prefill=world.max_prefill, prefills=world.prefills, mixed=world.mixed, order=world.order,
        conservativeness=world.conservativeness, ignore_eos=world.ignore_eos, chunked=world.chunk > 0,
    )  # fmt: skip
    policies = Policies(batcher=sglang, preempt="fewest_outputs")
    replica = Replica(engine, LinearCost(step_s=1.0), world.tokens // world.page, policies, one_step=True)
    ahead = [(ask.at * SECOND, id, ask) for id, ask in enumerate(world.asks)]
    steps: list[Step] = []
    gave_way: list[int] = []
    while ahead or replica.next_at < NEVER:
        if ahead and ahead[0][0] <= replica.next_at:
            now, id, ask = ahead.pop(0)
            replica.add(Sequence(_request(id, ask, world.page), ask.output), now)
            continue
        now = replica.next_at
        gave_way += [sequence.id for code, sequence in replica.turn(now) if code == PREEMPTED]
        lane = replica.lanes[0]
        tokens = {sequence.id: entry.tokens for sequence, entry in lane.chunks}
        tokens |= dict.fromkeys(lane.group.members, 1) if lane.decoded else {}
        if lane.steps:  # else the batcher is asked again at once
            steps.append((now // SECOND, tokens, gave_way))
            gave_way = []
    assert not replica.sequences, "all requests end"
    return steps


def _request(id: int, ask: Ask, page: int) -> RequestView:
    ends = range(page, ask.prompt + 1, page)  # an extent names the whole prefix up to its end
    ids = [1000 * (ask.group if end <= ask.shared else 10 + id) + end for end in ends]
    rest = ask.prompt % page > 0
    return RequestView(
        id, ask.at * SECOND, ask.prompt, ask.limit, (*ids, *[-1 - id] * rest), (*ends, *[ask.prompt] * rest),
        priority=ask.priority, begun_at=ask.at * SECOND,
    )  # fmt: skip
