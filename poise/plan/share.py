"""The share of the requests that meets an SLO, as text: never 100 ± 0 %."""

from __future__ import annotations

from poise.plan.trial import Trial
from poise.report.wording import write

ALL = 0.99995
"""The share from which on two decimals say 100."""


def least(trial: Trial) -> float | None:
    """The lower end of the interval of a share that is written as 100 %: no miss among n requests is not none at all.

    The end is that of Wilson's interval (`report.shares`). None for other shares, and where a run is too short to say.
    """
    return 1 - trial.spread if trial.attainment >= ALL and trial.spread is not None else None


def in_table(trial: Trial) -> str:
    """A cell, in percent: an upper bound of a run that was cut, a lower one of a share of 100 %."""
    share = f"{100 * trial.attainment:.2f}"
    if trial.cut:
        return f"≤ {share} %"
    if (low := least(trial)) is not None:
        return f"≥ {100 * low:.2f} %"
    return f"{share} ± {'?' if trial.spread is None else f'{100 * trial.spread:.2g}'} %"


def in_words(trial: Trial) -> str:
    """The share in a sentence."""
    if (low := least(trial)) is not None:
        return f"at least {write(low, 'share', 3)}"
    return f"{write(trial.attainment, 'share')}{'' if trial.spread is None else f' ± {100 * trial.spread:.2g} %'}"


def in_list(trial: Trial) -> str:
    """The share in the list of remarks, which says where a run is too short."""
    if trial.spread is None:
        return f"{100 * trial.attainment:.2f} % (too short to say how far off)"
    return in_words(trial) if least(trial) is not None else in_table(trial)
