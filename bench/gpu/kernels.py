"""What the scripts of this folder share: a decoder layer's operations, times by CUDA events, and tables."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

WARM = 5
"""Runs before the first that counts."""


class Layer(NamedTuple):
    """A decoder layer's sizes: those of Llama-3.1-8B."""

    hidden: int = 4096
    ffn: int = 14_336
    heads: int = 32
    kv_heads: int = 8
    width: int = 128

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of its products: query, key and value; output; gate and up; down."""
        values = self.heads * self.width
        return (
            (self.hidden, values + 2 * self.kv_heads * self.width),
            (values, self.hidden),
            (self.hidden, 2 * self.ffn),
            (self.ffn, self.hidden),
        )

    @property
    def weights(self) -> int:
        """How many weights its products have."""
        return sum(n * k for n, k in self.shapes)

    def products(self, tokens: int, device: str) -> Callable[[], None]:
        """The four products on `tokens` tokens, with weights and inputs of their own."""
        pairs = [
            (normal((tokens, inputs), device), normal((inputs, outputs), device)) for inputs, outputs in self.shapes
        ]

        def run() -> None:
            for left, right in pairs:
                torch.mm(left, right)

        return run

    def attention(self, batch: int, queries: int, context: int, device: str) -> Callable[[], None]:
        """Attention of `queries` new tokens after `context` earlier ones, for each of `batch` sequences."""
        query = normal((batch, self.heads, queries, self.width), device)
        keys, values = (normal((batch, self.kv_heads, context + queries, self.width), device) for _ in range(2))
        mask: Tensor | None = None
        if queries > 1 and context:  # with earlier tokens the causal mask begins at their end
            mask = torch.ones(queries, context + queries, dtype=torch.bool, device=device).tril(context)

        def run() -> None:
            functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, is_causal=queries > 1 and not context, enable_gqa=True
            )

        return run


def normal(shape: tuple[int, ...], device: str) -> Tensor:
    """Random numbers of a small spread, in 16 bits."""
    return torch.randn(shape, device=device, dtype=torch.bfloat16) * 0.02


def median_s(run: Callable[[], None], repeats: int) -> float:
    """The median time of a run on the current stream, in seconds."""
    for _ in range(WARM):
        run()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(then) for first, then in itertools.pairwise(marks)) / 1000


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all scripts have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=positive, default=50, help="runs of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the rows, device and versions to this file")
    return parser


def positive(text: str) -> int:
    """A number of 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def need_device() -> str:
    """The device's name; the script ends in one line where there is none."""
    if not torch.cuda.is_available():
        sys.exit("no CUDA device is there: this script measures one; run it where torch.cuda.is_available()")
    return torch.cuda.get_device_name()


def show(columns: Iterable[str], rows: list[dict[str, Any]], to: Path | None) -> None:
    """Print rows as a table, and write them with what they were measured on."""
    names = list(columns)
    print(" ".join(f"{name:>16}" for name in names))
    for row in rows:
        print(" ".join(f"{_text(row.get(name)):>16}" for name in names))
    if to is not None:
        about = {
            "device": need_device(),
            "date": datetime.now(UTC).date().isoformat(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "command": " ".join(sys.argv),
        }
        to.write_text(json.dumps({"about": about, "rows": rows}, indent=1), encoding="utf-8")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
