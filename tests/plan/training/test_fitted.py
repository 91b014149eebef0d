"""The least recomputation that fits: nothing where there is room, more as memory shrinks, and never less time."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.cost.training import Job, Layout, predict, shape
from poise.plan.training.fitted import WAYS, fitted

JOB = Job(shape(40, 5120, 40), device("A100"), 8, 4096, 64, attention="eager")
LAYOUT = Layout(tensor=8, data=1)


def test_less_memory_takes_more_recomputation_and_more_time() -> None:
    found = []
    for gib in (400, 40, 31):
        job = replace(JOB, device=replace(JOB.device, memory_bytes=gib * 2**30))
        found.append(fitted(job, LAYOUT))
        assert found[-1].fits(job)
    assert found[0].layout.recompute == "none" and found[-1].layout.recompute != "none"
    assert found[0].seconds < found[-1].seconds and found[0].memory > found[1].memory > found[2].memory


def test_where_nothing_fits_all_is_computed_again() -> None:
    job = replace(JOB, device=replace(JOB.device, memory_bytes=2**30))
    assert fitted(job, LAYOUT) == predict(job, replace(LAYOUT, recompute="full"))


def test_experts_are_computed_again_where_there_are_any() -> None:
    kinds = {replace(LAYOUT, **way).operations for way in WAYS}
    assert any("experts" in each for each in kinds)
    job = Job(model("mixtral-8x22b"), device("H100"), 128, 4096, 256)
    layout = Layout(tensor=2, pipeline=8, data=8, expert=8)
    sizes = sorted({predict(job, replace(layout, **way)).memory for way in WAYS})
    for size in sizes:
        tight = replace(job, device=replace(job.device, memory_bytes=int(size)))
        assert fitted(tight, layout).memory <= size
