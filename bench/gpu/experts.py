"""Routed experts under uneven loads: a grouped product with balanced, Zipf and recorded loads.

    python bench/gpu/experts.py [--experts 128] [--active 8] [--loads loads.json] [--json experts.json]

A row has the milliseconds of one MoE layer's two grouped products (gate and up, down) in 16 bits by torch, how many
tokens the busiest expert has over the mean, and the time over that of balanced loads. The defaults are the sizes of
Qwen3-30B-A3B. `--loads` reads recorded routing: a JSON list with the tokens of each expert, as often as there are
layers or steps; they are scaled to the tokens of a row.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from kernels import arguments, median_s, need_device, normal, positive, show

TOKENS = (16, 64, 256, 1024, 4096, 16_384)
EXPONENTS = (0.0, 0.5, 1.0, 1.5)
"""Of Zipf's law; 0 is balanced."""


def spread(tokens: int, weights: list[float]) -> list[int]:
    """Tokens by experts in proportion to weights, whole numbers that add up (largest remainders)."""
    parts = [tokens * weight / sum(weights) for weight in weights]
    whole = [int(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: whole[at] - parts[at])
    for at in order[: tokens - sum(whole)]:
        whole[at] += 1
    return whole


def layer_s(loads: list[int], hidden: int, inner: int, repeats: int) -> float:
    """Seconds of the two grouped products."""
    ends = torch.tensor(loads, device="cuda").cumsum(0).to(torch.int32)
    first, second = normal((sum(loads), hidden), "cuda"), normal((sum(loads), inner), "cuda")
    up, down = normal((len(loads), hidden, 2 * inner), "cuda"), normal((len(loads), inner, hidden), "cuda")

    def run() -> None:
        torch._grouped_mm(first, up, offs=ends)
        torch._grouped_mm(second, down, offs=ends)

    return median_s(run, repeats)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--experts", type=positive, default=128)
    parser.add_argument("--active", type=positive, default=8, help="experts of a token")
    parser.add_argument("--hidden", type=positive, default=2048)
    parser.add_argument("--inner", type=positive, default=768, help="an expert's inner width")
    parser.add_argument("--loads", type=Path, help="recorded tokens by expert")
    args = parser.parse_args()
    if args.active > args.experts:
        parser.error(f"--active {args.active} is above --experts {args.experts}; give at most as many")
    kinds = {f"zipf {power}": [(at + 1.0) ** -power for at in range(args.experts)] for power in EXPONENTS}
    if args.loads is not None:
        recorded = json.loads(args.loads.read_text(encoding="utf-8"))
        wrong = [at for at, each in enumerate(recorded) if len(each) != args.experts]
        if wrong:
            parser.error(f"--loads {args.loads}: entry {wrong[0]} has not {args.experts} experts; give --experts")
        kinds |= {f"recorded {at}": [float(load) for load in each] for at, each in enumerate(recorded)}
    print(need_device())
    rows: list[dict[str, Any]] = []
    for tokens in TOKENS:
        balanced = 0.0
        for kind, weights in kinds.items():
            loads = spread(tokens * args.active, weights)
            time = layer_s(loads, args.hidden, args.inner, args.repeats)
            balanced = balanced or time
            busiest = max(loads) * args.experts / sum(loads)
            rows.append(
                {"tokens": tokens, "loads": kind, "busiest": busiest, "ms": 1000 * time, "over": time / balanced}
            )
    show([*rows[0]], rows, args.json)


if __name__ == "__main__":
    main()
