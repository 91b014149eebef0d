"""Fits the intervals that Poise states to measurements, and prints how often they hold on groups left out.

    python bench/fit_intervals.py DIR [DIR …]

Answers every measurement below the folders (some ten CPU minutes for ten thousand) and writes
`poise/intervals/calibration.json`. Run it again whenever costs change.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from poise.experiment.progress import Bars
from poise.experiment.workers import workers_of
from poise.intervals.fit import Seen, calibrate
from poise.intervals.saved import text_of
from poise.intervals.shipped import FILE
from poise.validation.evidence import evidence
from poise.validation.folder import answer_folder
from poise.validation.intervals import show_held


def main(folders: list[str]) -> None:
    """Read, fit, write and print."""
    rows: list[Seen] = []
    with Bars(lines=True) as bars:
        for folder in folders:
            found = answer_folder(Path(folder), workers_of(None, None), bars, operators=False)
            rows += evidence(found.answers, found.training)
    about = {
        "made": f"{datetime.now(UTC):%Y-%m-%d} by bench/fit_intervals.py",
        "rows": f"{len(rows)} of {len({row.source for row in rows})} sources",
    }
    calibration = calibrate(rows, about)
    FILE.write_text(text_of(calibration), encoding="utf-8")
    show_held(rows, sys.stdout, calibration)


if __name__ == "__main__":
    main(sys.argv[1:])
