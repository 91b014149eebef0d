"""Answers to rows: the prediction, the naive one, and what was assumed; or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from poise.catalogue.engines import engine_defaults
from poise.core.errors import PoiseError
from poise.core.spec import Pool
from poise.cost import kv_blocks
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter, silent
from poise.experiment.workers import Workers, worker_pool
from poise.scenario.engine_cost import cost_for
from poise.validation.assumptions import meant_metric
from poise.validation.batch import decode_s, prefill_s, static_outcome
from poise.validation.condition import Condition, NotCoveredError, Reading, read_condition
from poise.validation.naive import naive_cost
from poise.validation.outcome import Outcome
from poise.validation.room import balanced, holds, roomy
from poise.validation.row import Row
from poise.validation.scenario import scenario_outcome
from poise.validation.served import served_outcome

BATCH = 8
"""Conditions in one task of a process."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one row: `predicted` in the row's unit, or `why` there is none.

    naive: the bare roofline's prediction.  assumed: the assumptions.
    """

    row: Row
    predicted: float | None = None
    naive: float | None = None
    assumed: tuple[str, ...] = ()
    why: str = ""

    @property
    def off(self) -> float:
        """The signed relative error, predicted over measured less 1."""
        assert self.predicted is not None
        return self.predicted / self.row.value - 1


Predicted = tuple[Outcome | None, Outcome | None, str]
"""The outcome of a condition and the naive one, or why there is none."""


class _Batch(NamedTuple):
    """A task of conditions for one process, from the number of the first on."""

    begin: int
    conditions: Sequence[Condition]


def answer_rows(
    rows: Sequence[Row], workers: Workers | None = None, progress: Meter | None = None, *, tables: str = ""
) -> list[Answer]:
    """An answer for each row; conditions that rows share are worked out once. Ctrl-C ends it without any.

    tables: a file of operator tables; "" takes those that ship.
    """
    readings = [_read(row, tables) for row in rows]
    conditions = list(dict.fromkeys(found.condition for found in readings if isinstance(found, Reading)))
    outcomes = _worked_out(conditions, workers or Workers(), progress or silent)
    return [_answer(row, found, outcomes) for row, found in zip(rows, readings, strict=True)]


def _read(row: Row, tables: str) -> Reading | str:
    try:
        found = read_condition(row)
    except NotCoveredError as error:
        return str(error)
    return Reading(replace(found.condition, tables=tables), found.assumed) if tables else found


def _worked_out(conditions: Sequence[Condition], workers: Workers, progress: Meter) -> dict[Condition, Predicted]:
    """The outcome of each condition."""
    found: dict[Condition, Predicted] = {}
    size = 1 if workers == Workers() else BATCH
    batches = [_Batch(begin, conditions[begin : begin + size]) for begin in range(0, len(conditions), size)]

    def done(came: tuple[int, list[Predicted]]) -> None:
        begin, results = came
        found.update(zip(batches[begin // size].conditions, results, strict=True))
        progress("Measured configurations", len(found), len(conditions))

    with interrupts() as stop, worker_pool(workers.at_most(len(batches)), stop, _batch) as hands:
        hands.work(batches, done)
        if stop.is_set():
            raise KeyboardInterrupt
    return found


def _batch(batch: _Batch, stopped: Callable[[], bool]) -> tuple[int, list[Predicted]] | None:
    answers = []
    for condition in batch.conditions:
        if stopped():
            return None
        answers.append(work_out(condition))
    return batch.begin, answers


def work_out(condition: Condition) -> Predicted:
    """The outcome of `condition` and the naive one, or why there is none.

    An internal failure is reported like any other reason: one row among thousands must not cost the others their
    answers.
    """
    try:
        return (outcome(condition), naive_outcome(condition), "")
    except (NotCoveredError, PoiseError) as error:
        return (None, None, str(error))
    except (ArithmeticError, LookupError, ValueError) as error:
        return (None, None, f"our failure: {type(error).__name__}: {error}")


def outcome(condition: Condition) -> Outcome:
    """The prediction for `condition` by its kind of load."""
    match condition.load.kind:
        case "static":
            return _static(condition)
        case "offline" | "server" | "interactive":
            return scenario_outcome(condition)
    return served_outcome(condition)


def _static(condition: Condition) -> Outcome:
    """One batch that starts and ends together; where memory cannot hold it, its requests take their turns."""
    pool = condition.pools[0]
    if not holds(condition):
        return served_outcome(replace(condition, load=replace(condition.load, kind="queued")))
    if not engine_defaults(condition.engine, condition.version).splits_layers:
        pool = replace(pool, pipeline=1)  # stages take turns with the whole batch; what llama.cpp reaches holds that
    estimator = cost_for(pool, condition.engine, condition.version, condition.tables)
    load = condition.load
    return static_outcome(estimator, pool, load.clients, condition.prompt, condition.output, condition.devices)


def naive_outcome(condition: Condition) -> Outcome:
    """The bare roofline without queueing: a request's own prefill, then steps of as many decodes as run at once."""
    condition, _ = roomy(balanced(condition))
    pools = condition.pools
    first, last = pools[0], pools[-1]
    prompt, output = max(1, round(condition.prompt)), max(1, round(condition.output))
    batch = _together(condition, last)
    if condition.load.kind == "static":
        return static_outcome(naive_cost(last), last, condition.load.clients, prompt, output, condition.devices)
    ttft = prefill_s(naive_cost(first), 1, prompt, prompt)
    rest = decode_s(naive_cost(last), batch, prompt, output - 1)
    busy = rest + batch * ttft * (1 if len(pools) == 1 else 0)
    tpot = rest / max(1, output - 1)
    at_once = batch * last.replicas * (condition.devices // last.devices if condition.scenario else 1)
    rate = min(at_once / busy, sum(condition.load.rates) / max(1, len(condition.load.rates)) or 1e30)
    flow = {"request": rate, "output": rate * output, "prompt": rate * prompt, "total": rate * (prompt + output)}
    seconds = {"ttft": ttft, "tpot": tpot, "itl": tpot, "e2e": ttft + rest}
    names = ("mean", "median", "p50", "p90", "p95", "p99")
    return Outcome({part: dict.fromkeys(names, value) for part, value in seconds.items()}, flow, condition.devices)


def _together(condition: Condition, pool: Pool) -> int:
    """Requests that a replica decodes together: the clients' share, what KV holds, or one where there is a rate."""
    if condition.load.kind == "rate":
        return 1
    tokens = kv_blocks(pool) * pool.engine.block_tokens
    held = min(pool.engine.max_sequences, int(tokens / (condition.prompt + condition.output / 2)))
    clients = -(-condition.load.clients // pool.replicas) if condition.load.clients else held
    return max(1, min(clients, held))


def _answer(row: Row, found: Reading | str, outcomes: dict[Condition, Predicted]) -> Answer:
    if isinstance(found, str):
        return Answer(row, why=found)
    outcome, naive, why = outcomes[found.condition]
    if outcome is None or naive is None:
        return Answer(row, assumed=found.assumed, why=why)
    metric, meant = meant_metric(row.source, row.metric, row.load)
    predicted = outcome.figure(metric, row.unit)
    if predicted is None or not predicted > 0:
        return Answer(
            row, assumed=found.assumed, why=f"metric {row.metric} is not known, or this load does not have it"
        )
    assumed = (*found.assumed, *filter(None, (meant,)), *outcome.notes)
    return Answer(row, predicted, naive.figure(metric, row.unit), assumed)
