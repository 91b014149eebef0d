"""One step's seconds are those of the estimator that a simulation asks."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.launch import Prefill, bound_s, transition
from poise.cost.one_step import step_s
from poise.cost.term import Termed
from poise.cost.terms.nanoflow import NanoFlow

POOL = Pool(model("llama-3.1-8b"), device("A100"))


def test_a_step_takes_what_its_piece_says() -> None:
    prompts = Roofline().build(POOL).step(StepShape(0, (Chunk(300, 0),) * 2))
    assert step_s(POOL, prompts=2, prompt_tokens=300) == prompts.base / SECOND
    decodes = Termed(Roofline(), (NanoFlow(1),)).build(POOL).step(StepShape(8)).at(8 * 500)
    assert step_s(POOL, decodes=8, context=500, terms=[NanoFlow(1)]) == (decodes.base + 4000 * decodes.per_kv) / SECOND


def test_a_prefill_waits_for_its_launches_up_to_the_knee() -> None:
    """The knee is where the device takes over; TKLQT is least below it and grows beyond."""
    made = Prefill(POOL, launch_s=1e-4, kernels=400, prompt_tokens=16, batch=1)
    knee = made.knee()
    assert knee == transition(made.work_s, 400, 1e-4) > 1
    assert made.work_s(knee - 1) < 0.04 <= made.work_s(knee)
    assert made.time_s() == bound_s(made.work_s(1), 400, 1e-4) == pytest.approx(0.04)
    assert made.before() == pytest.approx(1, rel=0.01)
    assert made.beyond() > 10
