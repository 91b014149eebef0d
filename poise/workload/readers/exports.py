"""Logs of gateways and tracing services as they export them: LiteLLM spend logs, Langfuse, OpenAI responses."""

from __future__ import annotations

from functools import partial

from poise.workload.readers.format import Format, Source
from poise.workload.readers.raw import Raw, moved

LITELLM = Format(
    "litellm",
    columns={
        "arrival_s": (Source("starttime"),),
        "prompt_tokens": (Source("prompt_tokens"),),
        "output_tokens": (Source("completion_tokens"),),
        "request_id": (Source("request_id"),),
        "model": (Source("model"),),
        "session": (Source("session_id"),),
        "tenant": (Source("team_id"), Source("end_user"), Source("user")),
    },
    signature=("starttime", "prompt_tokens", "completion_tokens", "spend"),
)
"""Rows of LiteLLM's table `LiteLLM_SpendLogs`, as its `/spend/logs` and its database give them."""


def _generations(raw: Raw) -> Raw:
    """The observations that are calls of a model; spans and events are no requests."""
    kinds = raw.columns.get("type")
    if kinds is None:
        return raw
    kept = [row for row, kind in enumerate(kinds) if row in raw.broken or str(kind).upper() == "GENERATION"]
    place = {row: at for at, row in enumerate(kept)}
    return Raw(
        raw.path,
        {name: [column[row] for row in kept] for name, column in raw.columns.items()},
        len(kept),
        partial(moved, raw.place, kept),
        {place[row]: problem for row, problem in raw.broken.items()},
    )


LANGFUSE = Format(
    "langfuse",
    columns={
        "arrival_s": (Source("starttime"),),
        "prompt_tokens": tuple(map(Source, ("usagedetails.input", "usage.input", "prompttokens", "inputusage"))),
        "output_tokens": tuple(map(Source, ("usagedetails.output", "usage.output", "completiontokens", "outputusage"))),
        "request_id": (Source("id"),),
        "model": (Source("model"), Source("providedmodelname")),
        "session": (Source("sessionid"), Source("traceid")),
        "tenant": (Source("userid"),),
    },
    signature=("starttime", "traceid"),
    prepare=_generations,
)
"""Observations of Langfuse (`/api/public/observations`, or the exported table); requests of one trace are a session."""

_NESTED = ("", "response.", "response.body.", "body.")
"""Where a log keeps the response: as itself, in a pair with the request, or as a line of a batch's results."""

OPENAI = Format(
    "openai",
    columns={
        "arrival_s": tuple(Source(f"{part}{name}") for part in _NESTED for name in ("created", "created_at")),
        "prompt_tokens": tuple(
            Source(f"{part}usage.{name}") for part in _NESTED for name in ("prompt_tokens", "input_tokens")
        ),
        "output_tokens": tuple(
            Source(f"{part}usage.{name}") for part in _NESTED for name in ("completion_tokens", "output_tokens")
        ),
        "request_id": tuple(Source(f"{part}id") for part in _NESTED),
        "model": tuple(Source(f"{part}model") for part in _NESTED),
        "max_tokens": (Source("request.max_completion_tokens"), Source("request.max_tokens")),
        "tenant": (Source("request.user"), Source("user")),
    },
    whole=True,
)
"""Responses of OpenAI's API (chat, completions, Responses), one a line; vLLM, SGLang and llama.cpp answer alike."""
