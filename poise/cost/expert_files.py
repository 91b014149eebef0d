"""Recorded loads of experts: a table, SGLang's recordings, and the balance that vLLM and SGLang write to their logs."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poise.core.errors import TraceError, UserError
from poise.core.experts import ExpertLoad
from poise.core.spec import Pool
from poise.cost.expert_load import Busiest, busiest_of
from poise.cost.torch_file import read_torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = ("layer", "expert", "count")
MOST_ZIPF = 3.0
"""The largest exponent that a log is taken to speak of."""

_VLLM = re.compile(r"EPLB step: \d+.*?avg_tokens=([\d.]+), max_tokens=\d+, balancedness=([\d.]+)")
_SGLANG = re.compile(r"\[Expert Balancedness\].*?current_pass_balancedness=([\d.]+).*?gpu_physical_count_sum=(\d+)")


@dataclass(frozen=True, slots=True)
class Balance:
    """One step in a log: the pairs of a rank on average, summed over layers, and these over the fullest rank's."""

    pairs: float
    balancedness: float


def read_load(path: Path, pool: Pool) -> ExpertLoad:
    """The load of `pool`'s experts that a file recorded.

    `.csv`: a table of layer, expert, count; equal pairs add up.  `.json`, `.pt`: SGLang's `logical_count`.  Any other:
    a log, from whose balance a Zipf exponent is found.  TraceError where a file is none of them.
    """
    with _reading(path, "an engine's log"):
        counts = _recorded(path)
        return _logged(path, pool) if counts is None else ExpertLoad(shares=_shares(counts), source=path.name)


def read_counts(path: Path, active: int = 1) -> NDArray[Any]:
    """(layers × experts) pairs that a file recorded; dense layers have none.

    Beside the tables of `read_load`: `.npy` with (layers × experts) counts, or with (tokens × layers × experts) logits
    of routers, of which each token's `active` largest count. TraceError where a file is none of them.
    """
    import numpy as np

    with _reading(path, "NumPy's .npy with counts or router logits"):
        if path.suffix.lower() == ".npy":
            found = _of_array(np.load(path, allow_pickle=False), active)
        else:
            counts = _recorded(path)
            if counts is None:
                raise ValueError("the ending of its name is none of .csv, .json, .pt and .npy")
            found = np.array(counts, dtype=float)
        if found.ndim != 2 or not np.isfinite(found).all() or found.min() < 0:
            raise ValueError("it holds no counts of 0 or more for the same experts in each layer")
        return found


def _of_array(found: NDArray[Any], active: int) -> NDArray[Any]:
    """Counts as they are, or pairs of the largest logits; of equal ones the first experts."""
    import numpy as np

    if found.ndim != 3:
        return found.astype(float)
    if not 0 < active <= found.shape[2]:
        raise ValueError(f"a token has {active} experts, and its logits are of {found.shape[2]}")
    chosen = np.argsort(-found, axis=2, kind="stable")[:, :, :active]
    counts = np.zeros(found.shape[1:])
    np.add.at(counts, (np.arange(found.shape[1])[None, :, None], chosen), 1.0)
    return counts


@contextmanager
def _reading(path: Path, other: str) -> Iterator[None]:
    """Anything that is wrong with a file, as a TraceError that names it."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise TraceError(
            f"{path}: cannot be read as a load of experts ({error}); give a CSV table with {', '.join(COLUMNS)}, "
            f"SGLang's .json or .pt with logical_count, or {other}"
        ) from error


def _recorded(path: Path) -> Sequence[Sequence[float]] | None:
    """The table of a file, by the ending of its name; None for another ending."""
    match path.suffix.lower():
        case ".csv":
            return _table(path)
        case ".json":
            return _counts(json.loads(path.read_text(encoding="utf-8")))
        case ".pt" | ".pth":
            return _counts(read_torch(path))
    return None


def _table(path: Path) -> list[list[float]]:
    """Counts by layer and expert, layers in order."""
    found: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            found[int(row["layer"])][int(row["expert"])] += float(row["count"])
    experts = max((max(layer) for layer in found.values()), default=-1) + 1
    return [[layer.get(expert, 0.0) for expert in range(experts)] for _, layer in sorted(found.items())]


def _counts(found: Any) -> Sequence[Sequence[float]]:
    """(layers × experts) counts of SGLang's recorder: `logical_count` of its statistics, steps added up, or the
    passes of its mode `per_pass`."""
    if "records" in found:
        logical = found["last_physical_to_logical_map"]
        passes = [each["global_physical_count"] for each in found["records"]]
        return _logical(_added(passes), logical)
    counts = found["logical_count"]
    if counts and counts[0] and isinstance(counts[0][0], list):
        return _added(counts)
    return [[float(each) for each in layer] for layer in counts]


def _added(steps: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Counts of all steps together."""
    return [[sum(each) for each in zip(*layer, strict=True)] for layer in zip(*steps, strict=True)]


def _logical(counts: Iterable[Iterable[float]], logical: Sequence[Sequence[int]]) -> list[list[float]]:
    """Counts of physical experts, added up by the logical expert that each holds."""
    found = []
    for layer, names in zip(counts, logical, strict=True):
        sums = [0.0] * (max(names) + 1)
        for count, name in zip(layer, names, strict=True):
            sums[name] += count
        found.append(sums)
    return found


def _shares(counts: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Counts as parts of their layer's; layers without any (dense ones) are left out."""
    kept = [[float(each) for each in layer] for layer in counts if sum(layer) > 0]
    if not kept or any(len(one) != len(other) for one, other in pairwise(kept)) or min(map(min, kept)) < 0:
        raise ValueError("it holds no counts of experts, or not the same experts in each layer")
    return tuple(tuple(each / sum(layer) for each in layer) for layer in kept)


def _logged(path: Path, pool: Pool) -> ExpertLoad:
    """The Zipf exponent under which `pool` is as unbalanced as its log says, over all steps that it names."""
    balances = balance_of(path.read_text(encoding="utf-8", errors="replace").splitlines(), pool)
    if not balances:
        raise ValueError("it has no line of EPLB's balancedness (vLLM: log_balancedness; SGLang: its metrics)")
    if pool.model.moe is None or pool.expert == 1:
        raise ValueError("a log's balance is between ranks of experts, and this pool has one")
    return ExpertLoad(zipf=_fitted(balances, pool), source=path.name)


def balance_of(lines: Iterable[str], pool: Pool) -> list[Balance]:
    """The steps of a log that had any tokens."""
    found = []
    for line in lines:
        if match := _VLLM.search(line):
            found.append(Balance(float(match[1]), float(match[2])))
        elif match := _SGLANG.search(line):
            found.append(Balance(float(match[2]) / pool.expert, float(match[1])))
    return [each for each in found if each.pairs > 0 and each.balancedness > 0]


def _fitted(balances: Sequence[Balance], pool: Pool) -> float:
    """By bisection: the fullest rank's part rises with the exponent."""
    moe = pool.model.moe
    assert moe is not None
    tokens = [each.pairs * pool.expert / (moe.layers * moe.active) for each in balances]
    wanted = sum(each / balance.balancedness for each, balance in zip(tokens, balances, strict=True))
    low, high = 0.0, MOST_ZIPF
    for _ in range(20):
        middle = (low + high) / 2
        load: Busiest = busiest_of(ExpertLoad(zipf=middle), pool)
        low, high = (middle, high) if sum(map(load.tokens, tokens)) < wanted else (low, middle)
    return round((low + high) / 2, 4)
