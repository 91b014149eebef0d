"""Nano-batches side by side against closed forms, and the search for their shares."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost.efficiency import Efficiencies
from poise.cost.nano_batches import ARITHMETIC, LINKS, MEMORY, Operator, Plan, Play, played, search
from poise.cost.sm_share import reached
from poise.cost.work import Works

POOL = Pool(model("llama-2-70b"), device("A100"), tensor=8)
DENSE, KV = StepShape(1024, (Chunk(1024, 0),)), 1024 * 700


def test_nano_batches_of_two_kinds_take_the_larger_and_one_after_another_the_sum() -> None:
    """Two chains of products for 2 and messages for 1: products never wait. Alone, a chain takes 3 a layer."""
    use = Efficiencies(share_friction=1e-9)
    chain = [Operator(ARITHMETIC, 2.0, 0.0), Operator(LINKS, 0.0, 0.0, 1.0)]
    assert Play([chain], {}, use).layer() == pytest.approx(3.0)
    free = Play([chain, chain], {(ARITHMETIC, LINKS): (1.0, 1.0)}, use).layer()
    assert free == pytest.approx(4.0)
    part = Play([chain, chain], {(ARITHMETIC, LINKS): (0.5, 0.5)}, use).layer()
    slow, sent = reached(0.5, use.share_arithmetic), 1 / reached(0.5, use.share_bandwidth)
    assert part == pytest.approx(2 * (sent + 2.0 - slow * sent), rel=1e-6)


def test_what_runs_side_by_side_shares_the_bandwidth() -> None:
    use = Efficiencies(share_friction=1e-9)
    chains = [[Operator(ARITHMETIC, 1.0, 1.0)], [Operator(MEMORY, 0.0, 1.0)]]
    assert Play(chains, {(ARITHMETIC, MEMORY): (1.0, 1.0)}, use).layer() == pytest.approx(2.0)


def test_a_plan_is_no_worse_than_even_shares_and_no_better_than_the_bound() -> None:
    works = Works(POOL)
    for nano in (2, 3):
        plan = search(works, DENSE, KV, (nano,))
        even = {kinds: (1 / len(kinds),) * len(kinds) for kinds in plan.shares}
        found = played(works, plan, DENSE, KV)
        assert found <= played(works, Plan((1 / nano,) * nano, even), DENSE, KV)
        assert found > 0.95 * works.of(DENSE, nano).bound(KV)
    assert played(works, search(works, DENSE, KV), DENSE, KV) <= found
