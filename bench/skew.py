"""Print the load of the fullest rank of experts over the mean, by ranks, of recorded routing (`moe_routing`).

    python bench/skew.py DATA

The figures of `SKEW` in `poise/validation/training/stated.py`: the median over layers and domains of OLMoE-1B-7B's
routing (allenai/OLMoE, Apache-2.0), 64 experts of which 8 are active, with equal parts of them on each rank.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np

RANKS = (2, 4, 8, 16, 32, 64)


def loads(path: Path) -> list[list[int]]:
    """Tokens of each expert, for each layer and domain of OLMoE with all of a token's experts."""
    found: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["model"] == "olmoe-1b-7b" and row["topk"] == "topk":
                found[row["domain"], row["layer"]][int(row["expert"])] = int(row["count"])
    return [[each.get(expert, 0) for expert in range(64)] for each in found.values()]


def skew(counts: list[int], ranks: int) -> float:
    """The fullest rank's tokens over the mean."""
    sums = np.array(counts).reshape(ranks, -1).sum(axis=1)
    return float(sums.max() / sums.mean())


def main() -> None:
    """Print a line for each number of ranks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    counts = loads(parser.parse_args().data / "moe_routing" / "expert_counts.csv.gz")
    for ranks in RANKS:
        print(f"{ranks:3} ranks  {np.median([skew(each, ranks) for each in counts]):.2f}")


if __name__ == "__main__":
    main()
