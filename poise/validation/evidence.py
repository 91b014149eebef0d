"""Answers as evidence of how far predictions are off: their conditions, and measured over predicted."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import log
from typing import cast

from poise.core.spec import Pool
from poise.intervals.conditions import Conditions, FigureKind
from poise.intervals.fit import Seen
from poise.intervals.interval import Interval
from poise.intervals.shipped import interval_of
from poise.scenario.evidence import conditions, training_conditions
from poise.validation.answer import Answer
from poise.validation.assumptions import named_device, named_model
from poise.validation.condition import NotCoveredError, read_condition
from poise.validation.load import load_of
from poise.validation.outcome import plain_metric
from poise.validation.training.answer import Answer as Trained

TAILS = ("_p90", "_p95", "_p99")

_PARTS: dict[str, FigureKind] = {
    "ttft": "ttft", "tpot": "tpot", "itl": "tpot", "e2e": "e2e", "latency": "e2e", "batch": "e2e", "layer": "layer",
}  # fmt: skip


def evidence(answers: Iterable[Answer], training: Iterable[Trained] = ()) -> list[Seen]:
    """The answers of quality A and B as rows of a calibration; outcomes (`fits`) have no error and are left out."""
    served = [
        _seen(conditions_of(each), each.row.source, each.row.value, each.predicted)
        for each in answers
        if each.predicted and each.row.quality != "C"
    ]
    trained = [
        _seen(conditions_of_training(each), each.run.source, each.run.value, each.predicted)
        for each in training
        if each.predicted and each.run.metric != "fits" and each.run.value > 0
    ]
    return served + trained


@cache
def stated(answer: Answer) -> Interval:
    """The interval that is stated with an answer."""
    return interval_of(conditions_of(answer))


def stated_of_training(answer: Trained) -> Interval:
    """The interval that is stated with an answer to a training run."""
    return interval_of(conditions_of_training(answer))


def _seen(of: Conditions, source: str, measured: float, predicted: float) -> Seen:
    return Seen(of, source, of.slower * log(measured / predicted))


def figure_of(metric: str) -> FigureKind:
    """The kind of figure that a metric's name means: a throughput, unless it is a latency."""
    return _PARTS.get(plain_metric(metric).split("_")[0], "throughput")


def conditions_of(answer: Answer) -> Conditions:
    """The conditions of an answer."""
    row = answer.row
    words = row.load.split()[0] if row.load.startswith(("replay", "prompt", "decode")) else ""
    load = "rate" if words == "replay" else words or load_of(row.load, row.notes).kind
    tail = any(mark in plain_metric(row.metric) for mark in TAILS)
    guessed = any("workers" in note for note in answer.assumed)
    figure = figure_of(row.metric)
    try:
        if words:
            raise NotCoveredError
        condition = read_condition(row).condition
        pools, engine, version = condition.pools, condition.engine, condition.version
    except NotCoveredError:  # a replay, or a layer alone
        pool = _pool(row.model, row.device, max(row.tensor, 1) * max(row.data, 1))
        pools, engine, version = (pool,), row.engine, row.version
    return conditions(figure, pools, engine, version, load=load, tail=tail, guessed=guessed)


@cache
def _pool(model: str, device: str, tensor: int) -> Pool:
    found, machine = named_model(model), named_device(device)[0]
    return Pool(found, machine, tensor=tensor if found.heads % tensor == 0 else 1)


def conditions_of_training(answer: Trained) -> Conditions:
    """The conditions of an answered training run."""
    run = answer.run
    job, layout = run.job, run.layout
    assert job is not None and layout is not None
    return training_conditions(
        cast("FigureKind", run.metric), job, layout, engine=run.engine, model=run.model, guessed=run.quality != "A"
    )
