"""Attention over long contexts: decodes with one to eight query tokens, and prompt chunks after earlier tokens.

    python bench/gpu/decode_queries.py [--batch 32] [--json decode_queries.json]

A row has the milliseconds of one layer's attention of Llama-3.1-8B by torch, and the bandwidth and arithmetic reached.
Decodes of speculative steps have several query tokens; chunks go from 256 to 8,192 tokens, contexts to 131,072.
"""

from __future__ import annotations

from typing import Any

from kernels import Layer, arguments, median_s, need_device, positive, show

QUERIES = (1, 2, 4, 8)
CONTEXTS = (1024, 4096, 16_384, 65_536)
CHUNKS = (256, 1024, 4096, 8192)
EARLIER = (0, 8192, 32_768, 122_880)


def row(layer: Layer, batch: int, queries: int, context: int, repeats: int) -> dict[str, Any]:
    """One measurement, beside what must be read and computed."""
    time = median_s(layer.attention(batch, queries, context, "cuda"), repeats)
    pairs = batch * (queries * context + queries * (queries + 1) / 2)
    moved = 4 * layer.kv_heads * layer.width * batch * (context + queries)
    return {
        "batch": batch, "queries": queries, "context": context, "ms": 1000 * time,
        "GB/s": moved / time / 1e9, "TFLOP/s": 4 * layer.heads * layer.width * pairs / time / 1e12,
    }  # fmt: skip


def main() -> None:
    """Measure and print both tables as one."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--batch", type=positive, default=32, help="sequences that decode; fewer where KV is above 8 GB"
    )
    args = parser.parse_args()
    print(need_device())
    layer, rows = Layer(), []
    for context in CONTEXTS:
        room = 8_000_000_000 // (4 * layer.kv_heads * layer.width * context)
        rows += [row(layer, min(args.batch, room), queries, context, args.repeats) for queries in QUERIES]
    for context in EARLIER:
        rows += [row(layer, 1, chunk, context, args.repeats) for chunk in CHUNKS]
    show([*rows[0]], rows, args.json)


if __name__ == "__main__":
    main()
