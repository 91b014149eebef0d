"""BurstGPT's load as a model: a day's wave, hours that differ far more than it, bursts within them, and failures.

Wang et al., arXiv 2401.17644; data: HPMLL/BurstGPT (CC-BY-4.0). The paper models gaps as Gamma with parameters that
change from window to window, prompts as near to Zipf, outputs by model. Here the rate of an hour is the mean times
`DAY` times a lognormal factor that remembers the hour before; all three were fitted on 974 hourly counts of its first
months (892,939 requests; November 2026), where hours vary by a coefficient of 2.8. They contain no steady week.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import positive, stream
from poise.workload.generate import MOST_ROWS, Floats, Options, endless
from poise.workload.lengths import Lognormal, Zipf, tokens
from poise.workload.profile import Profile
from poise.workload.table import Workload
from poise.workload.varying import follow

HOUR_S = 3600.0
DAY = (0.88, 0.83, 0.52, 0.50, 0.47, 0.44, 0.19, 0.14, 0.27, 0.44, 0.60, 1.11,
       1.69, 1.56, 1.88, 1.60, 1.55, 1.41, 1.37, 1.84, 1.60, 1.20, 1.04, 0.97)  # fmt: skip
"""Requests of each hour of the record's day over their mean; the hour of the day of the first is unknown."""

SPREAD, MEMORY = 1.4, 0.67
"""Standard deviation of the logarithm of an hour's factor, and its correlation with that of the hour before."""

FAILURES = 0.0178
"""The part of the first two months' requests without a response: 1,429,700 with failures, 1,404,300 without."""

GPT4 = 0.25
"""The part of requests that go to GPT-4; a choice, as are the lengths below: made after the first forty rows that the
data set's page shows, all conversations, for its requests cannot be redistributed here one by one."""

CHATGPT_LENGTHS = (Zipf(0.8, 4096), Lognormal(365, 0.85, 4096))
GPT4_LENGTHS = (Zipf(0.67, 4096), Lognormal(310, 0.4, 4096))
"""Prompts near to Zipf, outputs; those of GPT-4 are longer and more even."""


def burstgpt(
    rate: float,
    *,
    cv: float = 2.0,
    spread: float = SPREAD,
    memory: float = MEMORY,
    gpt4: float = GPT4,
    failures: float = FAILURES,
    begin_s: float = 0.0,
    requests: int | None = None,
    duration_s: float | None = None,
    **options: Unpack[Options],
) -> Workload:
    """Return arrivals at `rate` in the mean of many days; tenant 0 is ChatGPT, tenant 1 GPT-4.

    cv: of the gaps as the rate stretches them (1: Poisson).  spread, memory: of hours, as `SPREAD` and `MEMORY`; with
    spread 0 all days are equal.  gpt4: part of the requests of tenant 1.  failures: part of requests that request one
    output token: their prompt is computed and nothing comes of it.  begin_s: the second of the day at which to begin.
    Lengths given by `options` hold for both models, in place of their own. One hour is seldom like the mean: take days,
    or spread 0, to load a cluster by a given rate.
    """
    positive("rate", rate)
    for name, value, most in (("spread", spread, np.inf), ("memory", memory, 1.0)):
        if not 0 <= value < most:
            raise ScenarioError(f"burstgpt: {name} is {value:g}; give 0 or more" + (", below 1" if most == 1 else ""))
    for name, value in (("gpt4", gpt4), ("failures", failures)):
        if not 0 <= value <= 1:
            raise ScenarioError(f"burstgpt: {name} is {value:g}, and it is a part of the requests; give 0 to 1")
    facts = {"kind": "burstgpt", "rate": rate, "cv": positive("cv", cv, zero=True), "spread": spread, "gpt4": gpt4}
    seed = options.get("seed", 0)

    def draw(end_s: float | None, rows: int | None) -> Workload:
        profile = _profile(rate, spread, memory, positive("begin_s", begin_s, zero=True), seed, end_s, rows)
        return _modelled(follow(profile, cv, rows, end_s, options, dict(facts)), gpt4, failures, options)

    if requests is None and duration_s is None:
        return endless(draw(None, 1), lambda seconds: draw(seconds, None))
    return draw(duration_s, requests)


def _profile(
    rate: float, spread: float, memory: float, begin_s: float, seed: int, end_s: float | None, requests: int | None
) -> Profile:
    """The rate of each hour until enough requests or seconds are expected; more hours begin with the same ones."""
    hours = 64
    while True:
        factors = hour_factors(spread, memory, hours, seed)
        into = begin_s % HOUR_S
        of_day = (int(begin_s // HOUR_S) + np.arange(hours)) % 24
        lasts = np.full(hours, HOUR_S)
        lasts[0] -= into
        profile = Profile.steps(lasts, rate * np.asarray(DAY)[of_day] * factors)
        enough = requests is not None and profile.total > requests + 10 * requests**0.5 + 10
        if enough or (end_s is not None and profile.span_s >= end_s):
            return profile
        hours *= 2
        if hours > MOST_ROWS:
            raise ScenarioError("burstgpt: rate is too low for so many requests; raise it, or ask for fewer")


def hour_factors(spread: float, memory: float, hours: int, seed: int) -> Floats:
    """Lognormal factors of mean 1, each correlated with the one before."""
    drawn = stream(seed, "hours").standard_normal(hours)
    logs = np.empty(hours)
    last = 0.0
    for hour, each in enumerate(drawn):
        last = each if hour == 0 else memory * last + (1 - memory**2) ** 0.5 * each
        logs[hour] = last
    factors: Floats = np.exp(spread * logs - spread**2 / 2)
    return factors


def _modelled(drawn: Workload, gpt4: float, failures: float, options: Options) -> Workload:
    """The same arrivals with the lengths of their models, and failures."""
    rows, seed = len(drawn), options.get("seed", 0)
    of_gpt4: NDArray[np.bool_] = stream(seed, "model").random(rows) < gpt4
    failed = stream(seed, "failures").random(rows) < failures
    prompt, output = drawn.prompt, drawn.output
    given = {name for name, each in options.items() if each is not None}
    if not given & {"prompt_tokens", "output_tokens", "lengths"}:
        columns = []
        for index, name in enumerate(("prompt", "output")):
            one, two = (
                tokens(each[index], stream(seed, f"{name} of {model}"), rows, name) for model, each in _MODELS.items()
            )
            columns.append(np.where(of_gpt4, two, one).astype(np.int32))
        prompt, output = columns
        if (limit := options.get("max_tokens")) is not None:
            output = np.minimum(output, np.int32(limit))
    output = np.where(failed, 1, output).astype(np.int32)
    source = {**drawn.source, "failed": int(failed.sum())}
    return replace(drawn, prompt=prompt, output=output, tenant=of_gpt4.astype(np.int32), source=source)


_MODELS = {"chatgpt": CHATGPT_LENGTHS, "gpt-4": GPT4_LENGTHS}
