"""An answered training run as a line of the table of answers."""

from __future__ import annotations

from collections.abc import Sequence

from poise.validation.training.answer import Answer

UNITS = {"step_time": "s", "peak_memory": "bytes", "fits": ""}


def line_of(answer: Answer, bounds: Sequence[str]) -> tuple[object, ...]:
    """The fields under `poise.validation.rowfile.COLUMNS`; `isl` is the sequence, `concurrency_or_rate` the batch
    with the layout, and there is no naive prediction; bounds: the ends of its intervals."""
    run, job, layout = answer.run, answer.run.job, answer.run.layout
    load = "" if job is None or layout is None else f"batch {job.batch}: {layout.label()}"
    value = "" if job is None else f"{run.value:.6g}"
    predicted = "" if answer.predicted is None else f"{answer.predicted:.6g}"
    return (
        run.place, run.source, run.engine, "", run.model, run.device, job.devices if job else "",
        layout.tensor if layout else "", job.sequence if job else "", "", load, run.metric, UNITS[run.metric],
        run.quality, value, predicted, "", *bounds, "; ".join(run.assumed), answer.why,
    )  # fmt: skip
