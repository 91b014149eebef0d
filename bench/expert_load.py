"""Print the Zipf exponent of recorded routing (`moe_routing`), by model, and the load of the fullest rank beside it.

    python bench/expert_load.py DATA

The figures `FINE` and `COARSE` of `poise/cost/expert_load.py`: for each layer and domain of OLMoE-1B-7B (64 experts, 8
active) and Mixtral-8x7B (8, 2 active; allenai/OLMoE, Apache-2.0) the exponent under which its counts are likeliest, the
most popular expert first; then the median. Beside it, the fullest of 8 ranks over the mean: as counted, and by the law.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MODELS = {"olmoe-1b-7b": 64, "mixtral-8x7b": 8}
RANKS = 8
EXPONENTS = np.linspace(0.0, 2.0, 201)


def counts(path: Path, model: str, experts: int) -> NDArray[np.float64]:
    """Tokens of each expert with all of a token's experts, a row for each layer and domain."""
    found: dict[tuple[str, str], NDArray[np.float64]] = defaultdict(lambda: np.zeros(experts))
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["model"] == model and row["topk"] == "topk":
                found[row["domain"], row["layer"]][int(row["expert"])] += int(row["count"])
    return np.array(list(found.values()))


def law(experts: int, exponent: float) -> NDArray[np.float64]:
    """Parts of tokens, the most popular expert first."""
    popularity = np.arange(1, experts + 1) ** -exponent
    return np.asarray(popularity / popularity.sum())


def likeliest(row: NDArray[np.float64]) -> float:
    """The exponent that makes a row's counts likeliest."""
    ordered = np.sort(row)[::-1]
    return float(max(EXPONENTS, key=lambda each: float((ordered * np.log(law(len(row), each))).sum())))


def fullest(shares: NDArray[np.float64]) -> float:
    """The fullest of equal ranks over the mean, the median over rows."""
    ranks = shares.reshape(len(shares), RANKS, -1).sum(axis=2)
    return float(np.median(ranks.max(axis=1) / ranks.mean(axis=1)))


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    path = parser.parse_args().data / "moe_routing" / "expert_counts.csv.gz"
    random = np.random.default_rng(0)
    for model, experts in MODELS.items():
        rows = counts(path, model, experts)
        exponent = float(np.median([likeliest(row) for row in rows]))
        drawn = np.array([random.permutation(law(experts, exponent)) for _ in range(1000)])
        print(
            f"{model:14} {experts:3} experts, {len(rows)} layers and domains: Zipf exponent {exponent:.2f}; "
            f"fullest of {RANKS} ranks {fullest(rows):.2f} times the mean, {fullest(drawn):.2f} by the law"
        )


if __name__ == "__main__":
    main()
