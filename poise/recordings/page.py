"""The section of a what-if's report on the basis of its figures."""

from __future__ import annotations

from poise.core.version import version
from poise.recordings.whatif import WhatIf
from poise.report.html import About


def about(found: WhatIf) -> About:
    """The recording, the cost and the belief."""
    from poise.core.compiled import CORE

    study = found.comparison.study
    return About(
        title=f"What if: {', '.join(found.candidates)}",
        belief=study.setting.belief,
        engine="of the recording",
        cost={"estimator": "fitted", **found.cost.coefficients},
        seeds=study.seeds,
        slo=study.setting.slo,
        warmup_s=study.setting.warmup_s,
        workload=found.comparison.offered[1.0],
        version=f"{version()} ({CORE} core)",
    )
