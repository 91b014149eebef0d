"""A layout's step on links: the plain timing where nothing is sent, and closed forms of what stays exposed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, Prediction, predict
from poise.cost.training.stages import stages_of
from poise.cost.training.transfers import Transfers, transfers_of
from poise.pipeline import Costs, make
from poise.pipeline.lower import program_of
from poise.program.passes import as_messages
from poise.sim.step.edits import Bucketed, Edit, SideBySide, Wrapped
from poise.sim.step.layout import Draw, options, simulated
from poise.sim.step.linked import Linked, Unit, laid, linked
from poise.sim.step.recorded import recorded

JOB = Job(model("llama-3.1-8b"), device("H100"), 16, 4096, 32, nic_bw=50e9)
LAYERS = 32
NEAR = 1e-9
COSTS = Costs.of([9000, 12000], [8000, 10000], [7000, 9000], [300, 200])


def on(devices: int, nic_bw: float = 50e9, batch: int = 32) -> Job:
    return replace(JOB, devices=devices, nic_bw=nic_bw, batch=batch)


def run(job: Job, layout: Layout, *edits: Edit, unit: Unit = "layers", costs: Costs | None = None) -> Prediction:
    return linked(job, predict(job, layout), Linked(unit, edits), costs=costs)


def sent(job: Job, layout: Layout) -> Transfers:
    return transfers_of(job, layout, [1.0] * LAYERS)


@pytest.mark.parametrize("unit", ["stages", "layers"])
def test_with_nothing_to_send_it_is_the_plain_step(unit: Unit) -> None:
    layout = Layout(tensor=8)
    job = on(8)
    plain, found = simulated(job, predict(job, layout)), run(job, layout, unit=unit)
    assert found.seconds == pytest.approx(plain.seconds, abs=1e-4)  # stages are rounded to microseconds
    assert found.parts["messages"] == found.parts["gradients"] == 0


@pytest.mark.parametrize("unit", ["stages", "layers"])
@pytest.mark.parametrize(
    "layout",
    [
        Layout(tensor=8, pipeline=2),
        Layout(tensor=8, pipeline=2, schedule="zb_h1"),
        Layout(tensor=8, pipeline=2, chunks=2, schedule="interleaved"),
        Layout(tensor=8, pipeline=2, chunks=2, schedule="dualpipe_v"),
        Layout(tensor=8, pipeline=2, schedule="dualpipe"),
    ],
    ids=lambda layout: layout.schedule,
)
def test_recorded_messages_alone_are_the_plain_timing(layout: Layout, unit: Unit) -> None:
    plain, found = recorded(JOB, predict(JOB, layout), COSTS), run(JOB, layout, unit=unit, costs=COSTS)
    if unit == "stages":
        assert found.parts == pytest.approx(plain.parts, abs=NEAR)
    assert found.seconds == pytest.approx(plain.seconds, abs=NEAR)


@pytest.mark.parametrize("zero", [0, 1])
def test_of_a_stage_all_is_seen(zero: int) -> None:
    """One stage: its weights before the first forward, its gradients behind the last backward."""
    layout = Layout(tensor=8, data=2, zero=zero)
    (whole,) = transfers_of(JOB, layout, [LAYERS]).gradients
    seen = whole.fixed + whole.seconds
    if zero:
        (again,) = transfers_of(JOB, layout, [LAYERS]).gathers
        seen += again.fixed + again.seconds
    assert run(JOB, layout, unit="stages").parts["gradients"] == pytest.approx(seen, abs=NEAR)


def test_of_layers_the_last_sum_is_seen_on_a_fast_network() -> None:
    layout = Layout(tensor=8, data=2, zero=0)
    job = on(16, 400e9, batch=64)
    first = sent(job, layout).gradients[0]  # of the embedding and the first layer: the last to come
    assert run(job, layout).parts["gradients"] == pytest.approx(first.fixed + first.seconds, abs=NEAR)


def test_of_layers_all_but_the_backward_is_seen_on_a_slow_network() -> None:
    """Sums queue from the end of the last layer's backward on."""
    layout = Layout(tensor=8, data=2, zero=0)
    job = on(16, 1e9)
    stages = stages_of(job, layout)
    last = sum(stages.head[1:]) + (stages.inputs[0] + stages.weights[0] - sum(stages.head[1:])) / LAYERS
    left = stages.inputs[0] + stages.weights[0] - last
    total = sum(each.fixed + each.seconds for each in sent(job, layout).gradients)
    assert run(job, layout).parts["gradients"] == pytest.approx(total - left, abs=3e-6)


def test_of_layers_the_first_gather_is_seen_on_a_fast_network() -> None:
    layout = Layout(tensor=8, data=2, zero=1)
    job = on(16, 400e9, batch=64)
    moved = sent(job, layout)
    ends = [moved.gathers[0], moved.gradients[0]]
    seen = sum(each.fixed + each.seconds for each in ends)
    assert run(job, layout).parts["gradients"] == pytest.approx(seen, abs=NEAR)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_buckets_of_one_gradient_are_the_sums_themselves(zero: int) -> None:
    layout = Layout(tensor=4, pipeline=2, data=2, zero=zero)
    assert run(JOB, layout, Bucketed(0.0)) == run(JOB, layout)


def test_one_bucket_is_one_sum_behind_the_last_backward() -> None:
    layout = Layout(tensor=8, data=2, zero=0)
    sums = sent(JOB, layout).gradients
    whole = sums[0].fixed + sum(each.seconds for each in sums)
    found = run(JOB, layout, Bucketed(1e9, 1e9))
    assert found.parts["gradients"] == pytest.approx(whole, abs=NEAR)
    assert found.seconds > run(JOB, layout).seconds


def test_replicas_alike_are_one_of_them() -> None:
    layout = Layout(tensor=4, pipeline=2, data=2)
    found = predict(JOB, layout)
    one = Draw((Fraction(1),) * 2, (Fraction(1),) * 16)
    slow = Draw((Fraction(6, 5),) * 2, (Fraction(1),) * 16)
    alone, both = (linked(JOB, found, Linked("layers"), draws) for draws in ((), (one, one)))
    assert both.parts == pytest.approx(alone.parts, abs=NEAR)
    assert linked(JOB, found, Linked("layers"), (one, slow)).seconds > both.seconds


def test_pairs_as_slow_as_one_after_the_other_gain_nothing() -> None:
    layout = Layout(tensor=4, pipeline=2, data=2, chunks=2, schedule="dualpipe_v")
    alone, slow, fast = (
        run(JOB, layout, *edits, unit="stages") for edits in ((), (SideBySide(slowdown=2.0),), (SideBySide(),))
    )
    assert slow.seconds == pytest.approx(alone.seconds, rel=1e-6)
    assert fast.seconds < alone.seconds


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("unit", ["stages", "layers"])
def test_parts_sum_to_a_step_within_its_bounds(zero: int, unit: Unit) -> None:
    """No shorter than without transfers, no longer than with all of them one after the other."""
    layout = Layout(tensor=4, pipeline=2, data=2, zero=zero)
    found = run(JOB, layout, unit=unit)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert min(found.parts.values()) >= 0
    assert found.exposed * found.seconds == pytest.approx(
        found.parts["exposed_in_layers"] + found.parts["messages"] + found.parts["gradients"]
    )
    free = run(on(16, 1e15), layout, unit=unit).seconds
    moved, count = sent(JOB, layout), layout.microbatches(JOB)
    most = 2 * 2 * count * (moved.message.fixed + moved.message.seconds)
    most += sum(3 * count * (each.fixed + each.seconds) for each in (*moved.gradients, *moved.gathers))
    assert free <= found.seconds <= free + most


def test_merged_collectives_begin_less_often() -> None:
    """Where links are busy all the time, a step is shorter by the starts that are left out."""
    job, layout = on(64, batch=256), Layout(tensor=8, data=8, zero=3)
    alone, merged = run(job, layout), run(job, layout, Wrapped())
    assert merged.parts["gradients"] < alone.parts["gradients"]


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize(("name", "chunks"), [("zb_h1", 1), ("dualpipe", 1), ("interleaved", 2), ("zb_v", 2)])
def test_the_programs_of_layouts_are_proven(zero: int, name: str, chunks: int) -> None:
    layout = Layout(tensor=2, pipeline=2, data=4, chunks=chunks, zero=zero, schedule=name)
    schedule = make(name, 2, 4, **options(layout))
    program = as_messages(program_of(schedule))
    made = laid(program, layout, transfers_of(JOB, layout, [8.0] * schedule.stages))
    assert made.prove().collectives >= program.prove().collectives + schedule.stages


@pytest.mark.parametrize(
    ("layout", "how", "expected"),
    [
        (Layout(tensor=8, data=2), Linked("layers", (Wrapped(),)), "zero is 1; give zero: 3"),
        (Layout(tensor=8, data=2), Linked("layers", (SideBySide(),)), "give links: stages"),
    ],
)
def test_passes_that_the_layout_has_nothing_for(layout: Layout, how: Linked, expected: str) -> None:
    with pytest.raises(ScenarioError, match=expected):
        linked(JOB, predict(JOB, layout), how)


def test_too_many_operations_are_refused() -> None:
    job, layout = on(16, batch=4096), Layout(tensor=8, data=2)
    with pytest.raises(ScenarioError, match="no more than 60,000 are run one by one; give links: stages"):
        linked(job, predict(job, layout), Linked("layers"))
