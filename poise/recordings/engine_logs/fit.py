"""Fits a step cost to the rows of a log, judged by its last rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.core.units import SECOND
from poise.cost.fitted import COEFFICIENTS, Fitted
from poise.recordings.calibrate import HELD_OUT, recipe, rounded
from poise.recordings.engine_logs.windows import INTERVAL, REASONS, Log, Row
from poise.recordings.fit import Fit, FitRows, regress, standard_errors
from poise.recordings.runs import Floats

LEAST = 30
"""Least rows of a fit."""

PROMPT, PAIR, KV = (COEFFICIENTS.index(name) for name in ("prompt_token_s", "pair_s", "kv_token_s"))


@dataclass(frozen=True, slots=True)
class LogFit:
    """cost: the fitted recipe.  errors: the standard error of each coefficient, None where the log is too short.
    kept: coefficients that the log does not identify, and why.  held_out: median and 90th percentile of relative
    errors of the time of a step, over the held-out last rows; with prompts and without.  rows: the numbers of those
    fitted to and judged by: `of` windows or iterations.  left: what was left out, by reason.
    """

    cost: Fitted
    errors: dict[str, float | None]
    kept: dict[str, str]
    held_out: dict[str, dict[str, float]]
    rows: int
    of: str
    left: dict[str, int]
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the coefficients apart."""
        return {
            "standard_errors": self.errors,
            "not_identified": self.kept,
            "held_out": self.held_out,
            self.of: self.rows,
            "left_out": self.left,
            "notes": self.notes,
        }


def fit_log(log: Log, name: str, *, prior: Fitted | None = None) -> LogFit:
    """Fit a step cost; coefficients that the log does not identify keep their `prior` (default: no such effect).

    name: of the file, for messages. TraceError for a log with too little data.
    """
    of, rows = ("iterations", log.iterations) if len(log.iterations) >= LEAST else ("windows", log.rows)
    kept_rows = _with_context(rows)
    left = {reason: count for reason, count in log.left.items() if count}
    if len(kept_rows) < len(rows):
        left["no context"] = len(rows) - len(kept_rows)
    if len(kept_rows) < LEAST:
        raise TraceError(_too_few(log, name, len(kept_rows)))
    table = _table(kept_rows)
    before = np.array([getattr(prior, each, 0.0) for each in COEFFICIENTS])
    first = int(len(kept_rows) * (1 - HELD_OUT))
    seen = _part(table, slice(0, first))
    fit = regress(seen, before)
    if prior is None and not fit.free[PROMPT]:
        raise TraceError(_no_prompts(name, of, bool(table.x[:first, PROMPT].any())))
    fit = replace(fit, values=rounded(fit.values))
    errors = standard_errors(seen, fit, before)
    kept = {each: _why(seen, log, at, of, before[at]) for at, each in enumerate(COEFFICIENTS) if not fit.free[at]}
    found = LogFit(
        recipe(fit.values),
        {each: error for each, error in zip(COEFFICIENTS, errors, strict=True) if each not in kept},
        kept,
        _judged(_part(table, slice(first, None)), fit),
        len(kept_rows),
        of,
        left,
        _notes(log, of),
    )
    return replace(found, cost=replace(found.cost, about=found.as_dict()))


def _with_context(rows: list[Row]) -> list[Row]:
    """The rows with the KV tokens of decodes, if they are enough; else all rows, without them."""
    whole = [row for row in rows if row.kv_tokens is not None]
    return whole if len(whole) >= LEAST else rows


def _table(rows: list[Row]) -> FitRows:
    """The regression's rows, a second apart: a log's order of lines is better known than their times."""
    all_known = all(row.kv_tokens is not None for row in rows)
    x = np.array(
        [
            (row.steps, row.prompt_tokens, row.pairs, row.running, (row.kv_tokens or 0.0) if all_known else 0.0)
            for row in rows
        ]
    )
    count = len(rows)
    y = np.array([row.seconds for row in rows])
    return FitRows(x, y, np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64) * SECOND)


def _part(rows: FitRows, part: slice) -> FitRows:
    return FitRows(rows.x[part], rows.y[part], rows.group[part], rows.at[part])


def _judged(rows: FitRows, fit: Fit) -> dict[str, dict[str, float]]:
    """Relative errors of the step times of the held-out rows."""
    off: Floats = np.abs(rows.x @ fit.values / rows.y - 1)
    prompts: NDArray[np.bool_] = rows.x[:, PROMPT] > 0
    return {
        name: {"median": float(np.median(off[which])), "p90": float(np.quantile(off[which], 0.9))}
        for name, which in (("decoding", ~prompts), ("with_prompts", prompts))
        if which.any()
    }


# Texts -----------------------------------------------------------------------------------------------------------


def reasons(left: dict[str, int]) -> str:
    """What was left out, in words."""
    words = {**REASONS, "no context": "rows that do not say what decodes read"}
    return "; ".join(f"{words[reason]}: {count:,}" for reason, count in sorted(left.items()))


def _too_few(log: Log, name: str, count: int) -> str:
    if not log.windows and not log.iterations:
        broken = log.left["unreadable"]
        seen = f"{broken:,} broken ones" if broken else "none"
        return (
            f"{name}: of {log.lines:,} lines, {seen} that vLLM or SGLang write of their load (`Avg prompt "
            "throughput: …`, `Decode batch. …`); give the log of an engine that serves traffic, or what "
            "`poise serve --record` wrote"
        )
    why = f" (left out: {reasons(dict(log.left))})" if log.left else ""
    return (
        f"{name}: {count} windows of steady load in {log.lines:,} lines, and it takes {LEAST}{why}; log for longer, "
        "under steady load"
    )


def _no_prompts(name: str, of: str, alike: bool) -> str:
    text = "are in so few variants that" if alike else "are in none, so"
    return (
        f"{name}: prompts {text} the {of} do not tell what a prompt token takes; log while requests come, with the "
        "prefix cache off, or give an earlier cost by --prior FILE"
    )


def _why(rows: FitRows, log: Log, at: int, of: str, value: float) -> str:
    """Why a coefficient is not identified."""
    kept = f"kept at {value:g} s"
    if rows.x[:, at].any():
        return f"the load hardly varies in it; {kept}"
    if at == PAIR:
        return f"lines of {of} do not say how long each prompt was; {kept}"
    if at == KV:
        return (
            "the log does not say how many KV tokens requests hold (a line `GPU KV cache size: … tokens` of the "
            f"engine's start); {kept}"
        )
    return f"there is none in the log; {kept}"


def _notes(log: Log, of: str) -> list[str]:
    notes = []
    if of == "iterations":
        notes.append("with asynchronous scheduling vLLM's iterations leave out what the host does meanwhile")
    elif log.engine == "sglang" and log.interval is None:
        notes.append(f"the log does not say decode_log_interval; it is taken as {INTERVAL}, the default")
    return notes
