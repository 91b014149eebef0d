"""Encoding in the replicas and apart from them: what waits, what is paid, and that text alone is not touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.records.records import FINISHED, TIMED_OUT
from poise.core.spec import Cluster, EncoderPool, Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.encoder import expanded
from poise.report.spending import dollars
from poise.scenario.simulate import simulate
from poise.sim.encoding import Encoding
from poise.workload import all_at_once, media, poisson

QWEN = model("Qwen/Qwen3-VL-8B-Instruct")
POOL = Pool(QWEN, device("H100"), engine=Engine(token_budget=16384))
PLAIN = Cluster((POOL,))
APART = replace(PLAIN, encoders=EncoderPool(device("H100"), replicas=2))


def test_servers_take_requests_in_the_order_of_arrival() -> None:
    queue = Encoding(2, [10, 10, 10, 0, 5], [1, 1, 1, 0, 2])
    assert [queue.ready(row, now) for row, now in ((0, 0), (1, 0), (2, 4), (3, 5), (4, 100))] == [11, 11, 21, 5, 107]
    assert queue.busy == 35


def test_one_request_waits_for_its_encoding_and_for_nothing_else() -> None:
    """Alone, its first token comes later by exactly the time of its images, where the prompt is the same."""
    base = all_at_once(requests=1, prompt_tokens=100, output_tokens=20)
    rich = media(base, images=3, size=(1024, 1024))
    grown, brought = expanded(rich, QWEN)
    assert brought is not None
    (time,) = brought.times(QWEN, device("H100"))
    (handed,) = brought.handed(QWEN, device("H100").scaleout_bw, PLAIN.link_latency_s)
    text = simulate(PLAIN, replace(grown, images=None), cost=Roofline()).records
    inside = simulate(PLAIN, rich, cost=Roofline()).records
    apart = simulate(APART, rich, cost=Roofline()).records
    assert inside.prompt_tokens[0] == 100 + 3 * 1024
    assert inside.first_token_at[0] - text.first_token_at[0] == time
    assert apart.first_token_at[0] - text.first_token_at[0] == time + handed
    assert apart.arrived_at[0] == 0
    for each in (inside, apart):  # decoding is what it was
        assert each.ended_at[0] - each.first_token_at[0] == text.ended_at[0] - text.first_token_at[0]


@pytest.mark.parametrize("cluster", [PLAIN, APART])
def test_held_batches_change_nothing(cluster: Cluster) -> None:
    base = poisson(rate=6.0, requests=60, prompt_tokens=300, output_tokens=60, seed=1)
    load = media(base, images={"uniform": {"low": 0, "high": 3}}, size=(800, 600), seed=2)
    fast, slow = (simulate(cluster, load, one_step=one).records for one in (False, True))
    assert list(fast.ended_at) == list(slow.ended_at) and list(fast.first_token_at) == list(slow.first_token_at)
    assert all(status == FINISHED for status in fast.status)


def test_encoders_apart_spare_the_decodes_of_others() -> None:
    """While a replica encodes, those that decode there wait; apart they do not."""
    base = poisson(rate=4.0, requests=80, prompt_tokens=200, output_tokens=100, seed=4)
    load = media(base, images=2, size=(1920, 1080), share=0.5, seed=5)
    inside, apart = (simulate(cluster, load, cost=Roofline()).records for cluster in (PLAIN, APART))
    gaps = [
        sum(end - first for end, first in zip(each.ended_at, each.first_token_at, strict=True))
        for each in (inside, apart)
    ]
    assert gaps[1] < gaps[0]


def test_prompts_are_encoded_where_they_are_computed() -> None:
    pair = Cluster((replace(POOL, role="prefill"), replace(POOL, role="decode")))
    base = all_at_once(requests=4, prompt_tokens=100, output_tokens=20)
    rich = media(base, images=1)
    grown, brought = expanded(rich, QWEN)
    assert brought is not None
    text = simulate(pair, replace(grown, images=None), cost=Roofline())
    seen = simulate(pair, rich, cost=Roofline())
    more = [each.busy - other.busy for each, other in zip(seen.replicas, text.replicas, strict=True)]
    assert more[0] == sum(brought.times(QWEN, device("H100")))


def test_a_client_may_leave_while_its_images_are_encoded() -> None:
    base = all_at_once(requests=6, prompt_tokens=100, output_tokens=20)
    slow = replace(APART, encoders=EncoderPool(device("L4"), link_bw=1e9))
    load = media(base, images=8, size=(2048, 2048))
    import numpy as np

    load.timeout = np.full(6, SECOND // 2, np.int64)
    run = simulate(slow, load, cost=Roofline())
    assert set(run.records.status) == {TIMED_OUT}


def test_encoders_are_paid() -> None:
    base = all_at_once(requests=2, prompt_tokens=100, output_tokens=20)
    run = simulate(APART, base, cost=Roofline())
    priced = [replace(each, pools=(replace(POOL, price_per_hour=1.0),)) for each in (PLAIN, APART)]
    priced[1] = replace(priced[1], encoders=EncoderPool(device("H100"), 2, price_per_hour=3.0))
    plain, apart = (dollars(run, each)[0] for each in priced)
    assert plain is not None and apart == pytest.approx(7 * plain)
