"""What servers that hand prompts over to other replicas take beyond the work itself: residuals of measured TTFT.

Reads InferenceX's disaggregated runs (`aic_silicon_sample`, with warm-up and a layout known from its configurations) in
which no prompt waits: 1,024 tokens, at most four requests a prefill rank, and a place for each at the decode side.
Prints the median by model and device, over all of an engine, and with each group left out.
`python bench/fit_handover.py ../shared/data`
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path

from poise.catalogue.engines import engine_defaults
from poise.validation.answer import Answer, answer_rows
from poise.validation.borrow import borrow
from poise.validation.condition import NotCoveredError, read_condition
from poise.validation.row import Row, read_rows

WARM = "2026-01-21"
"""The day from which on InferenceX's runs warm up."""

PROMPT, A_RANK = 1024, 4
"""Tokens of a prompt, and requests of a prefill rank up to which none waits."""


def main() -> None:
    """Print the residuals of each engine in milliseconds."""
    rows, _ = read_rows(Path(sys.argv[1]) / "fidelity" / "serving_e2e.csv")
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answer_rows([row for row in borrow(rows) if _taken(row)]):
        if answer.predicted is not None:
            row = answer.row
            found[row.engine][f"{row.model} on {row.device}"].append(_left(answer))
    for engine, groups in sorted(found.items()):
        print(f"{engine}: {statistics.median(chain.from_iterable(groups.values())):.0f} ms")
        for name, values in sorted(groups.items()):
            others = [value for other, each in groups.items() if other != name for value in each]
            without = f", without it {statistics.median(others):.0f} ms" if others else ""
            print(f"  {name}: {statistics.median(values):.0f} ms in {len(values)} runs{without}")


def _taken(row: Row) -> bool:
    """Whether nothing waits in the run of `row`, and all of it is known."""
    day = re.search(r"measured (20\d\d-\d\d-\d\d)", row.notes)
    if not row.disagg or "ttft" not in row.metric or row.prompt != PROMPT or not day or day[1] < WARM:
        return False
    try:
        condition = read_condition(row).condition
    except NotCoveredError:
        return False
    first, last = condition.pools
    room = min(A_RANK * first.replicas * first.data, last.replicas * last.engine.max_sequences)
    return condition.setup.layout is not None and condition.load.clients <= room


def _left(answer: Answer) -> float:
    """Milliseconds of a first token that nothing but the hand-over explains."""
    assert answer.predicted is not None
    condition = read_condition(answer.row).condition
    return answer.row.value - answer.predicted + 1e3 * engine_defaults(condition.engine, condition.version).handed_s


if __name__ == "__main__":
    main()
