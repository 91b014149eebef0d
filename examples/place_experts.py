"""Plan where DeepSeek-V3's experts live under a skewed load, then repair the plan after the load moved."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from poise.plan.experts.command import plan_experts
from poise.plan.experts.options import ExpertOptions

chance = np.random.default_rng(0)
popularity = chance.lognormal(0, 1, (58, 256))
moved = popularity * chance.lognormal(0, 0.3, (58, 256))


def write(file: Path, counts: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> Path:
    """The load as a recorder would have counted it, a million pairs a layer."""
    pairs = (counts / counts.sum(axis=1, keepdims=True) * 1e6).round()
    rows = [f"{layer},{expert},{count:.0f}" for (layer, expert), count in np.ndenumerate(pairs)]
    file.write_text("\n".join(["layer,expert,count", *rows]), encoding="utf-8")
    return file


with TemporaryDirectory() as name:
    folder = Path(name)
    cluster = {"model": "deepseek-v3", "ranks": 32, "redundant": 32, "nodes": 8, "groups": 8, "device": "GB200"}
    plan_experts(ExpertOptions(counts=write(folder / "monday.csv", popularity), **cluster, out=folder))
    print()
    in_force = folder / "sglang.json"
    plan_experts(ExpertOptions(counts=write(folder / "tuesday.csv", moved), **cluster, placed=in_force, moves=200))
