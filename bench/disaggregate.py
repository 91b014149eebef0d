"""Print the load that mixed and split replicas carry on recorded traffic: the tables of docs/choose-a-policy.md.

Each cell is one search as `poise compare --find-collapse` makes it, of `disaggregate.yaml` beside this file with what
the table says in its place. Some 120 searches: half an hour of one core. Reads traces under POISE_DATA (default
../shared/data).

    python bench/disaggregate.py [--jobs 2]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
TRAFFIC = {
    "code": ("azure_llm_2023/code.csv.gz", 1000, 1),
    "chat": ("azure_llm_2023/conv.csv.gz", 500, 1),
    "long": ("mooncake/conversation_trace.jsonl.gz", 400, 5),
}
"""The trace, how many of its requests, and the limit on time to first token, s."""
MODELS = {"8B": ("llama-3.1-8b", 1, (12, 16, 25)), "70B": ("llama-3.1-70b", 4, (25, 50))}
"""The model, its tensor ranks, and the limits on time per output token, ms."""
COLUMNS = {
    "8,192": (0, 0, 8192), "2,048": (0, 0, 2048), "512": (0, 0, 512),
    "1:3": (1, 3, 8192), "2:2": (2, 2, 8192), "3:1": (3, 1, 8192),
}  # fmt: skip
"""Replicas for prompts and for decodes, 0 for mixed ones, and the token budget."""
LINKS = (1, 5, 12.5, 50, 400)
ROUTERS = ("least_tokens", "pd_pair", "least_requests", "min_ttft")


@dataclass(frozen=True)
class Cell:
    """One search. ttft_s: 0 for the traffic's own limit."""

    model: str
    traffic: str
    tpot_ms: float
    column: str
    ttft_s: float = 0
    link_gb_s: float = 50
    router: str = "least_tokens"

    def sets(self) -> list[str]:
        """What it changes in the scenario."""
        model, ranks, _ = MODELS[self.model]
        trace, limit, ttft_s = TRAFFIC[self.traffic]
        prefill, decode, budget = COLUMNS[self.column]
        roles = [("prefill", prefill), ("decode", decode)] if prefill else [("mixed", 4)]
        pools = ", ".join(f"{{device: H100, replicas: {n}, tensor: {ranks}, role: {role}}}" for role, n in roles)
        return [
            f"model={model}", f"cluster.pools=[{pools}]", f"cluster.link_gb_s={self.link_gb_s}",
            f"workload.trace=$POISE_DATA/{trace}", f"workload.limit={limit}", f"engine.token_budget={budget}",
            f"slo.ttft_s={self.ttft_s or ttft_s}", f"slo.tpot_s={self.tpot_ms / 1000}",
            f"policies.router={self.router}",
        ]  # fmt: skip


def carried(cell: Cell) -> float:
    """The highest load that is carried, in multiples of the recording's own."""
    from poise.scenario.build import build
    from poise.scenario.compare.command import study_of
    from poise.scenario.compare.run import run
    from poise.scenario.load import load

    comparison = run(study_of(build(load(HERE / "disaggregate.yaml", cell.sets()))), find_collapse=True)
    (found,) = comparison.collapses.values()
    return found.carried.load if found.carried else 0.0


def table(
    head: str, names: Sequence[str], rows: Iterable[tuple[str, Sequence[Cell]]], found: dict[Cell, float]
) -> None:
    """The best of a row, and what is within 2 % of it, in bold."""
    print(f"\n{head} | {' | '.join(names)} |\n|{'---|' * (head.count('|') + len(names))}")
    for name, cells in rows:
        loads = [found[each] for each in cells]
        shown = (f"**{load:.3g}**" if load >= 0.98 * max(loads) else f"{load:.3g}" for load in loads)
        print(f"{name} | {' | '.join(shown)} |")


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    os.environ.setdefault("POISE_DATA", str(HERE.parents[1] / "shared/data"))
    grids = {
        model: [
            (f"| {traffic} | {tpot} ms", [Cell(model, traffic, tpot, column) for column in COLUMNS])
            for traffic in TRAFFIC
            for tpot in limits
        ]
        for model, (_, _, limits) in MODELS.items()
    }
    long, chat = Cell("8B", "long", 16, "2:2"), Cell("70B", "chat", 25, "2:2")
    links = [
        (f"| {each.traffic} on {each.model}, {each.tpot_ms} ms", [replace(each, link_gb_s=link) for link in LINKS])
        for each in (long, chat)
    ]
    soon = [
        (f"| {traffic} on {model}, {tpot} ms", [Cell(model, traffic, tpot, column, ttft_s=0.3) for column in COLUMNS])
        for model, traffic, tpot in (("8B", "code", 16), ("70B", "chat", 50))
    ]
    routers = [("| chat on 70B, 25 ms", [replace(chat, router=each) for each in ROUTERS])]
    cells = list(
        dict.fromkeys(cell for rows in (*grids.values(), links, soon, routers) for _, row in rows for cell in row)
    )
    with ProcessPoolExecutor(parser.parse_args().jobs) as pool:
        found = dict(zip(cells, pool.map(carried, cells), strict=True))
    for rows in grids.values():
        table("| traffic | TPOT within", list(COLUMNS), rows, found)
    table("| 2:2, by GB/s for each replica", [f"{link:g}" for link in LINKS], links, found)
    table("| TTFT within 0.3 s", list(COLUMNS), soon, found)
    table("| 2:2, by router", ROUTERS, routers, found)


if __name__ == "__main__":
    main()
