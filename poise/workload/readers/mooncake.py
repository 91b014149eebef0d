"""Mooncake traces (FAST 2025): stamps in milliseconds, and one chained id for each 512 tokens of a prompt."""

from __future__ import annotations

from poise.workload.readers.format import FIELDS, NEEDED, Format, Source, same_names

MOONCAKE = Format(
    "mooncake",
    columns={
        "arrival_s": (Source("timestamp", 1e-3),),
        "prompt_tokens": (Source("input_length"),),
        "output_tokens": (Source("output_length"),),
        **same_names(*(name for name in FIELDS if name not in NEEDED)),
        "session": (Source("session"), Source("session_id")),
    },
    signature=("timestamp", "input_length", "output_length", "hash_ids"),
)
"""Objects with `timestamp`, `input_length`, `output_length`, `hash_ids`; id i covers tokens from 512·i to 512·(i+1)."""
