"""dLLM-Serve as a term: the event model's steps and runs, growth, chords, and room that logits leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.engine.slowness import Slow
from poise.core.errors import CapacityError, UserError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline, kv_blocks
from poise.cost.dllm_serve import Aligned, Denoising, Memory, Multiplexed, Request, Running, serve, step_s
from poise.cost.memory import footprint
from poise.cost.term import Termed, held
from poise.cost.terms.dllm_serve import LOGIT_BYTES, NEAR, REFRESHES, DllmServe, chords
from poise.policies import Policies
from poise.policies.batch.static_batch import StaticBatch
from poise.scenario.simulate import simulate
from poise.workload import closed, poisson
from tests.cost.pools import more_work, pools
from tests.depth import examples

POOL = Pool(model("llama-3-8b"), device("L40S"), engine=Engine(prefix_caching=False))
ROOM = Memory(free=1e15, kv=1, logit=0)


def built(term: DllmServe, pool: Pool = POOL) -> Estimator:
    return term.around(Roofline().build(pool), pool)


def time(estimator: Estimator, shape: StepShape, kv: int) -> int:
    piece = estimator.step(shape).at(kv)
    return piece.base + piece.per_kv * kv


requests = st.integers(1, 100)
lengths = st.integers(200, 8000)


@given(requests, lengths, st.integers(1, 10), st.sampled_from(REFRESHES), st.sampled_from((0.25, 1.0)))
def test_a_step_is_the_mean_of_the_event_models(n: int, length: int, every: int, phases: str, kept: float) -> None:
    """Requests of one length, `every` steps long: all at the same phase, or spread evenly over phases."""
    term, estimator = DllmServe(every=every, refresh=phases, kept=kept), Roofline().build(POOL)
    steps = list(Denoising(every=every, kept=kept).work(Request(length - 128, 128)))[: 2 * every]
    running = [Running(Request(length - 128, 128), steps, at % every if phases == "mixed" else 0) for at in range(n)]
    seconds = []
    for _ in range(every):
        seconds.append(step_s(estimator, running))
        for each in running:
            each.done += 1
    predicted = time(built(term), StepShape(n), n * (length - 64)) / SECOND
    assert predicted == pytest.approx(fmean(seconds), rel=2 * NEAR)


@pytest.mark.parametrize("crowd", [1, 8, 24])
@pytest.mark.parametrize(("prompt", "output"), [(300, 128), (1000, 64)])
def test_a_static_batch_is_as_long_as_played(crowd: int, prompt: int, output: int) -> None:
    """Shorter by no more than chords are off, longer by less than a refresh of each."""
    engine = Engine(prefix_caching=False, max_sequences=crowd, token_budget=crowd * prompt)
    pool, term = replace(POOL, engine=engine), DllmServe(output=output, refresh="aligned")
    load = closed(crowd, crowd, prompt_tokens=prompt, output_tokens=output)
    run = simulate(Cluster((pool,)), load, Policies(batcher=StaticBatch(crowd)), cost=Termed(Roofline(), (term,)))
    estimator = Roofline().build(pool)
    played = serve([Request(prompt, output)] * crowd, Aligned(), estimator, ROOM, Denoising(), 1 << 30, static=True)
    refresh = estimator.step(StepShape(0, (Chunk(prompt + output, 0),) * crowd)).base / SECOND
    ended = max(run.records.ended_at) / SECOND
    assert played.ends_s * (1 - 2 * NEAR) <= ended <= played.ends_s * (1 + 2 * NEAR) + refresh


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_mixed_phases_are_as_late_as_played(load: float) -> None:
    """Poisson arrivals of equal requests: phases are where chance has put them, the mean is within a tenth."""
    term = DllmServe(output=64)
    alone = serve([Request(300, 64)], Multiplexed(), Roofline().build(POOL), ROOM, Denoising()).ends_s
    arriving = poisson(2 * load / alone, requests=200, prompt_tokens=300, output_tokens=64, seed=5)
    run = simulate(Cluster((POOL,)), arriving, cost=Termed(Roofline(), (term,)))
    rows = [Request(300, 64, float(at) / SECOND) for at in arriving.arrival]
    played = serve(rows, Multiplexed(), Roofline().build(POOL), ROOM, Denoising(), 1 << 30)
    late = fmean(end - at for end, at in zip(run.records.ended_at, run.records.arrived_at, strict=True)) / SECOND
    assert late == pytest.approx(fmean(played.latencies), rel=0.1)


terms = st.builds(
    DllmServe, st.sampled_from((8, 32)), st.sampled_from((8, 16)), st.integers(1, 8), st.integers(0, 64),
    st.sampled_from(REFRESHES),
)  # fmt: skip


@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None)
@given(
    pools(spread=False), terms, st.integers(0, 60), st.integers(1, 500), st.integers(0, 500), st.integers(0, 5000),
    st.integers(1, 500), st.sampled_from((0.3, 1.0)),
)  # fmt: skip
def test_more_work_takes_no_less(
    pool: Pool, term: DllmServe, decodes: int, new: int, earlier: int, context: int, extra: int, share: float
) -> None:
    """Up to what chords are off, each way. Data ranks that wait for the longest prompt bend costs either way."""
    assume(earlier or not term.output)  # a chunk that begins later has no masked positions
    estimator = built(term, pool)
    least = time(estimator, StepShape(decodes, (Chunk(new, earlier),), share), decodes * context)
    for shape, longer in more_work(decodes, new, earlier, context, extra, share):
        assert time(estimator, shape, decodes * longer) >= least * (1 - 3 * NEAR) - decodes * longer - 2
    if decodes:
        fewer, more = (time(estimator, StepShape(n, (), share), n * context) for n in (decodes, decodes + 1))
        assert more >= fewer * (1 - 3 * NEAR) - decodes * context - 2


@given(requests, st.lists(st.integers(0, 500_000), min_size=2, max_size=9), st.sampled_from(REFRESHES))
def test_longer_sequences_take_no_less(n: int, kv: list[int], phases: str) -> None:
    estimator = built(DllmServe(refresh=phases))
    times = [time(estimator, StepShape(n), each) for each in sorted(kv)]
    assert all(two >= one - max(kv) for one, two in pairwise(times))


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 10_000), st.integers(1, 10_000))
def test_chords_of_what_is_convex_are_near(square: int, slope: int, floor: int, place: int) -> None:
    def at(x: int) -> float:
        return max(floor * 1e3, slope * x + square * x * x / 1e4 + 1.0)

    points = chords(at, 1, 10_000)
    high = next(i for i, point in enumerate(points) if point[0] >= place) or 1
    (a, low), (b, top) = points[high - 1], points[high]
    predicted = low + (top - low) * (place - a) / (b - a)
    assert at(place) * (1 - 1e-9) <= predicted <= at(place) * (1 + 2.1 * NEAR)


def tokens(term: DllmServe, pool: Pool = POOL) -> int:
    return kv_blocks(held(Termed(Roofline(), (term,)), pool)) * 16


@pytest.mark.parametrize("cap_mb", [0.0, 256.0, 3000.0])
def test_room_is_that_of_the_event_model(cap_mb: float) -> None:
    kv = footprint(POOL).block / 16
    memory = Memory(kv_blocks(POOL) * 16 * kv, kv, POOL.model.vocab * LOGIT_BYTES, cap_mb * 1e6)
    most = tokens(DllmServe(cap_mb=cap_mb))
    assert memory.fits([Request(most, 0)]) and not memory.fits([Request(most + 16, 0)])
    assert tokens(DllmServe(cap_mb=1e6)) == tokens(DllmServe(cap_mb=0.0)) < tokens(DllmServe())


def test_half_of_the_kv_leaves_room_for_twice_the_tokens() -> None:
    assert tokens(DllmServe(kept=0.5)) == pytest.approx(2 * tokens(DllmServe()), rel=1e-3)


def test_a_token_is_a_part_of_a_step() -> None:
    """Half as many steps for each block: half of the time of each token; prompts beside take as long as before."""
    one, two = built(DllmServe()), built(DllmServe(steps=16))
    decodes, both = StepShape(16), StepShape(16, (Chunk(400, 0),))
    assert time(two, decodes, 6000) == pytest.approx(time(one, decodes, 6000) / 2, rel=2 * NEAR)
    beside = [time(each, both, 6000) - time(each, decodes, 6000) for each in (one, two)]
    assert beside[1] == pytest.approx(beside[0], rel=0.2)


def test_mixed_phases_take_no_longer() -> None:
    for n in (1, 4, 8, 40):
        mixed, aligned = (time(built(DllmServe(refresh=each)), StepShape(n), n * 364) for each in REFRESHES)
        assert mixed <= aligned * (1 + NEAR)


def test_what_cannot_be() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: DllmServe(every=0), "give 1 or more"),
        (lambda: DllmServe(output=-1), "give 0 or more"),
        (lambda: DllmServe(kept=0.0), "above 0 up to 1"),
        (lambda: DllmServe(refresh="mixt"), "give one of mixed, aligned"),
    ]
    for made, expected in cases:
        with pytest.raises(UserError, match=expected):
            made()
    few = replace(POOL, engine=Engine(kv_blocks=1))
    with pytest.raises(CapacityError, match="another cap"):
        DllmServe(cap_mb=1.0).held(few)


@given(requests, st.integers(0, 500_000), st.floats(0.5, 5))
def test_a_slow_device_scales_every_chord(n: int, kv: int, factor: float) -> None:
    """Also those whose line begins below 0."""
    estimator = built(DllmServe(every=1))
    predicted, slow = (time(each, StepShape(n), kv) for each in (estimator, Slow(estimator, factor)))
    assert slow == pytest.approx(predicted * factor, abs=kv + 2)
