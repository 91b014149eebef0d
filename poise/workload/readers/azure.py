"""Azure LLM inference traces 2023 and 2024, as published, and trimmed ones with relative stamps."""

from __future__ import annotations

from poise.workload.readers.format import Format, Source

AZURE = Format(
    "azure",
    columns={
        "arrival_s": (Source("timestamp"), Source("arrival_s")),
        "prompt_tokens": (Source("contexttokens"), Source("prompt_tokens")),
        "output_tokens": (Source("generatedtokens"), Source("output_tokens")),
    },
    signature=("timestamp", "contexttokens", "generatedtokens"),
)
"""`TIMESTAMP,ContextTokens,GeneratedTokens` (Splitwise, ISCA 2024); the trimmed form has Poise's own names."""
