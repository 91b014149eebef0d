"""BurstGPT as published: requests to ChatGPT and GPT-4 of a campus service, conversations and API calls."""

from __future__ import annotations

from poise.workload.readers.format import Format, Source

BURSTGPT = Format(
    "burstgpt",
    columns={
        "arrival_s": (Source("timestamp"),),
        "prompt_tokens": (Source("request_tokens"),),
        "output_tokens": (Source("response_tokens"),),
        "model": (Source("model"),),
        "session": (Source("session_id"),),
        "tenant": (Source("log_type"),),
    },
    signature=("timestamp", "model", "request_tokens", "response_tokens", "total_tokens", "log_type"),
)
"""`Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type` (arXiv 2401.17644), later files with sessions.

Stamps are seconds. `Log Type` is the tenant. Failed requests have a response of 0 tokens and so are bad rows; the files
`without_fails` have none.
"""
