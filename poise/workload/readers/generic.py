"""Any CSV, JSON Lines or Parquet file whose columns have names that the field uses."""

from __future__ import annotations

from poise.workload.readers.format import FIELDS, NEEDED, Format, Source, same_names

MILLI = 1e-3

OPTIONAL = same_names(*(name for name in FIELDS if name not in NEEDED))

GENERIC = Format(
    "generic",
    columns={
        "arrival_s": (
            *map(Source, ("arrival_s", "arrival_time_s", "arrival", "arrival_time", "arrived_at", "arrival_timestamp")),
            *(Source(name, MILLI) for name in ("arrival_ms", "arrival_time_ms", "timestamp_ms")),
            *map(Source, ("timestamp_s", "timestamp", "time_s")),
        ),
        "prompt_tokens": tuple(
            map(
                Source,
                (
                    "prompt_tokens",
                    "input_tokens",
                    "num_prefill_tokens",
                    "input_length",
                    "prompt_length",
                    "prompt_len",
                    "input_len",
                    "prompt_size",
                    "request_tokens",
                    "contexttokens",
                ),
            )
        ),
        "output_tokens": tuple(
            map(
                Source,
                (
                    "output_tokens",
                    "completion_tokens",
                    "num_decode_tokens",
                    "output_length",
                    "output_len",
                    "token_size",
                    "response_tokens",
                    "generated_tokens",
                    "generatedtokens",
                ),
            )
        ),
        **OPTIONAL,
        "request_id": (Source("request_id"), Source("id")),
        "session": (Source("session"), Source("session_id"), Source("conversation_id")),
        "delay_s": (Source("delay_s"), Source("delay_ms", MILLI)),
        "lora": (Source("lora"), Source("lora_id"), Source("adapter")),
        "tenant": (Source("tenant"), Source("tenant_id")),
    },
)
"""Poise's own names come first; the others are those of vLLM's benchmarks, Vidur, Splitwise and BurstGPT.

Numbers in a stamp column are seconds unless its name ends in `_ms`; texts are dates with a time of day.
"""
