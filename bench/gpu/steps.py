"""Steps of a decoder beside Poise's prediction: its layers' operations in CUDA graphs, decodes, prompts and both.

    python bench/gpu/steps.py [--device H200] [--layers 4] [--json steps.json]

A row has the milliseconds of a step of Llama-3.1-8B, from some layers' products and attention (random weights, torch)
scaled to 32, beside what `Measured` predicts of the same layers without host, sampler and output head, and the ratio.
Norms, rotation and the writing of KV are left out here and light kernels there, so ratios judge products and attention.
The last line has the ratios' median and deciles by kind of step.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from kernels import Layer, arguments, median_s, need_device, positive, show

import poise
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.curves import Curves
from poise.cost.measured import Measured
from poise.cost.tables import SHIPPED, load_tables

LAYERS = 32
DECODES = (1, 8, 32, 64, 128, 256)
CONTEXTS = (1024, 4096, 32_768)
PROMPTS = (256, 1024, 4096, 16_384)
MOST_KV = 400_000
"""Tokens of KV of all layers measured, which memory holds."""


def graphed(parts: list[Callable[[], None]]) -> Callable[[], None]:
    """The parts as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for part in parts:
            part()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for part in parts:
            part()
    return graph.replay


def measured_s(layer: Layer, layers: int, decodes: int, context: int, prompt: int, repeats: int) -> float:
    """Seconds of all layers of a step, from `layers` of them with weights and KV of their own."""
    parts: list[Callable[[], None]] = []
    for _ in range(layers):
        parts.append(layer.products(decodes + prompt, "cuda"))
        if decodes:
            parts.append(layer.attention(decodes, 1, context, "cuda"))
        if prompt:
            parts.append(layer.attention(1, prompt, 0, "cuda"))
    return median_s(graphed(parts), repeats) * LAYERS / layers


def predicted_s(pool: Pool, decodes: int, context: int, prompt: int) -> float:
    """Seconds that Poise predicts of the layers' products and attention."""
    recipe = Measured()
    chunks = (Chunk(prompt, 0),) if prompt else ()
    piece = recipe.build(pool).step(StepShape(decodes, chunks)).at(decodes * context)
    costs, sampled = Curves(pool, recipe, load_tables(SHIPPED), 1.0), decodes + len(chunks)
    apart = costs.last(sampled) + costs.step + costs.sequence * sampled
    return (piece.base + piece.per_kv * decodes * context - apart) / SECOND - LAYERS * 5 * recipe.light_s


def main() -> None:
    """Measure, predict, print."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="H200", help="the catalogue's name of this device")
    parser.add_argument("--layers", type=positive, default=4, help="that are measured; more than fit into a cache")
    args = parser.parse_args()
    cluster = poise.Cluster.of(args.device, count=1).replicas(1, model="llama-3.1-8b")
    print(need_device())
    shapes = [(n, context, 0) for n in DECODES for context in CONTEXTS if n * context * args.layers <= MOST_KV * 8]
    shapes += [(0, 0, prompt) for prompt in PROMPTS]
    shapes += [(n, 1024, prompt) for n in (8, 64) for prompt in (512, 2048)]
    rows: list[dict[str, Any]] = []
    ratios: dict[str, list[float]] = defaultdict(list)
    for decodes, context, prompt in shapes:
        time = measured_s(Layer(), args.layers, decodes, context, prompt, args.repeats)
        guess = predicted_s(cluster.pools[0], decodes, context, prompt)
        kind = "mixed" if decodes and prompt else "decode" if decodes else "prefill"
        ratios[kind].append(guess / time)
        rows.append(
            {"decodes": decodes, "context": context, "prompt": prompt, "ms": 1000 * time,
             "predicted ms": 1000 * guess, "ratio": guess / time}
        )  # fmt: skip
        torch.cuda.empty_cache()
    show([*rows[0]], rows, args.json)
    for kind, found in ratios.items():
        deciles = statistics.quantiles(found, n=10)
        print(f"{kind}: median {statistics.median(found):.3f}, deciles {deciles[0]:.3f} and {deciles[-1]:.3f}")


if __name__ == "__main__":
    main()
