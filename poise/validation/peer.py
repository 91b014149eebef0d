"""Published errors of other simulators, listed with ours where the metric is the same."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from poise.core.errors import TraceError
from poise.workload.readers.inflate import gunzip

FILE = Path("simulator_reference_errors") / "published_errors.csv.gz"

_METRICS = {"e2e": "e2e_latency", "ttft": "ttft", "itl": "itl", "tpot": "tpot"}


def read_peers(folder: Path) -> dict[str, dict[str, float]]:
    """Metric → simulator → median absolute error as a share; empty where the folder has no such file."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        rows = list(csv.DictReader(io.StringIO(gunzip(path.read_bytes(), path).decode())))
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            part, _, statistic = row["metric_name"].rpartition("_")
            metric = f"{_METRICS.get(part, part)}_{statistic}_ms"
            found.setdefault(metric, {})[row["simulator"]] = float(row["median"]) / 100
    except (OSError, EOFError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: cannot be read ({error}); give simulator, metric_name and median") from error
    return found
