"""An engine's metrics page, mapped to the columns of the cluster view.

One `Profile` an engine family. Where several label sets each have a part (data-parallel ranks), they are summed; where
they repeat one another (tensor- and pipeline-parallel ranks of SGLang, its priorities and their total), they count
once. What the page does not have is missing in the columns: nothing is made up.
Names: vllm/v1/metrics/loggers.py and the v0 names before it; sglang/srt/metrics; tools/server/README.md of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final, NamedTuple

from poise.live.telemetry.prometheus import Families, Reader, Sample

COUNTERS: Final = ("prompt_tokens", "finished", "finished_tokens", "prefix_queries", "prefix_hits", "preemptions")
"""Totals since the engine started: prompt tokens; finished requests and their prompt tokens; prompt tokens looked up
and found in the prefix cache; preemptions."""


class AdapterNames(NamedTuple):
    """The adapters (LoRA) of an engine by name: how many may run at once, those that run, and others that wait."""

    slots: int
    running: tuple[str, ...]
    waiting: tuple[str, ...]


class Reading(NamedTuple):
    """One reading of one engine.

    columns: by names of `core.view.REPORTED` and `requests`; those that the engine does not report are missing.
    guessed: columns that are estimates.  total_blocks, block_tokens: of its KV cache, 0 where unknown.
    models: names it serves, as far as the page has them.  counters: running totals, see `COUNTERS`.
    adapters: None where it does not report them.
    """

    profile: str
    columns: dict[str, int]
    guessed: frozenset[str]
    total_blocks: int
    block_tokens: int
    models: tuple[str, ...]
    counters: dict[str, float]
    adapters: AdapterNames | None = None


class _Values(NamedTuple):
    """The values of one page, before they are mapped to the view's columns; None for missing ones."""

    waiting: float | None
    running: float | None
    used_share: float | None
    total_tokens: float | None
    block_tokens: int
    models: tuple[str, ...]
    counters: dict[str, float]
    adapters: AdapterNames | None = None


class Profile(NamedTuple):
    """One engine family: the samples read of its page, and their meaning."""

    name: str
    reader: Reader
    values_of: Callable[[Families], _Values]


def read(page: bytes) -> Reading | str:
    """The reading of the page of any known engine, or why it cannot be read."""
    for profile in PROFILES:
        if profile.reader.knows(page):
            families = profile.reader.read(page)
            return families if isinstance(families, str) else _reading(profile.name, profile.values_of(families))
    return "no metric of vLLM, SGLang or llama.cpp on the page"


def _reading(profile: str, values: _Values) -> Reading | str:
    if values.waiting is None and values.running is None:
        return f"the page of {profile} says neither how many requests run nor how many wait"
    columns: dict[str, int] = {}
    guessed = set()
    for name, value in (("waiting", values.waiting), ("running", values.running)):
        if value is not None:
            columns[name] = round(value)
    if len(columns) == 2:
        columns["requests"] = columns["waiting"] + columns["running"]
    mean = _mean(values.counters)
    if "waiting" in columns and (mean is not None or not columns["waiting"]):
        columns["queued_tokens"] = round(columns["waiting"] * (mean or 0.0))
        guessed.add("queued_tokens")
    blocks = _held(values, columns, guessed)
    return Reading(
        profile, columns, frozenset(guessed), blocks, values.block_tokens, values.models, values.counters,
        values.adapters,
    )  # fmt: skip


def _held(values: _Values, columns: dict[str, int], guessed: set[str]) -> int:
    """Add the KV cache's figures; returns its number of blocks."""
    if values.total_tokens is None:
        return 0
    blocks = round(values.total_tokens / values.block_tokens) if values.block_tokens else 0
    if values.used_share is not None:
        if blocks:
            columns["free_blocks"] = min(blocks, max(0, round(blocks * (1 - values.used_share))))
        if "queued_tokens" in columns:
            columns["tokens"] = max(0, round(values.total_tokens * values.used_share)) + columns["queued_tokens"]
            guessed.add("tokens")
    return blocks


def _mean(counters: Mapping[str, float]) -> float | None:
    """Tokens of a prompt, over all that the engine has finished."""
    finished = counters.get("finished", 0.0)
    return counters["finished_tokens"] / finished if finished and "finished_tokens" in counters else None


# Sums over label sets ------------------------------------------------------------------------------------------------


MOST: Final = 1 << 53
"""The greatest count that is accepted: what a float still holds exactly."""


def _total(samples: list[Sample] | None, ranks: tuple[str, ...] | None = None) -> float | None:
    """The sum of the samples; with `ranks`, the greatest of those that agree in these labels, summed over the rest.

    Values that cannot be counts (negative, infinite, beyond `MOST`) are left out; None where nothing is left.
    """
    most: dict[tuple[str, ...], float] = {}
    for place, (labels, value) in enumerate(samples or ()):
        if not 0 <= value <= MOST or labels.get("priority"):
            continue
        key = (str(place),) if ranks is None else tuple(labels.get(rank, "") for rank in ranks)
        most[key] = max(value, most.get(key, value))
    return sum(most.values()) if most else None


def _first(families: Families, *names: str) -> list[Sample] | None:
    return next((families[name] for name in names if name in families), None)


def _counted(families: Families, names: Mapping[str, str], ranks: tuple[str, ...] | None = None) -> dict[str, float]:
    totals = {name: _total(families.get(sample), ranks) for name, sample in names.items()}
    return {name: value for name, value in totals.items() if value is not None}


def _models(families: Families, *names: str) -> tuple[str, ...]:
    found = {sample.labels.get("model_name", "") for name in names for sample in families.get(name, ())}
    return tuple(sorted(found - {""}))


# Engine families -----------------------------------------------------------------------------------------------------


def _vllm(families: Families) -> _Values:
    counters = _counted(
        families,
        {
            "prompt_tokens": "prompt_tokens_total",
            "finished": "request_prompt_tokens_count",
            "finished_tokens": "request_prompt_tokens_sum",
            "preemptions": "num_preemptions_total",
            "prefix_queries": "prefix_cache_queries_total",
            "prefix_hits": "prefix_cache_hits_total",
        },
    )
    if "prefix_queries" not in counters:
        old = {"prefix_queries": "gpu_prefix_cache_queries_total", "prefix_hits": "gpu_prefix_cache_hits_total"}
        counters |= _counted(families, old)
    tokens, block = _vllm_cache(families.get("cache_config_info", []))
    return _Values(
        waiting=_total(families.get("num_requests_waiting")),
        running=_total(families.get("num_requests_running")),
        used_share=_mean_share(_first(families, "kv_cache_usage_perc", "gpu_cache_usage_perc")),
        total_tokens=tokens,
        block_tokens=block,
        models=_models(families, "num_requests_running", "num_requests_waiting"),
        counters=counters,
        adapters=_vllm_adapters(families.get("lora_requests_info", [])),
    )


def _vllm_adapters(infos: list[Sample]) -> AdapterNames | None:
    """The adapters in the labels of the newest line: there is one for each combination that ever was, dated by value.

    Both labels of vLLM v1 name all adapters that have a request (`LoRARequestStates`), so of those as many run as may.
    """
    dated = [sample for sample in infos if isfinite(sample.value)]
    if not dated:
        return None
    labels = max(dated, key=lambda sample: sample.value).labels
    slots = _whole(labels.get("max_lora"))
    running, waiting = (
        [name for name in labels.get(f"{state}_lora_adapters", "").split(",") if name][:MOST_ADAPTERS]
        for state in ("running", "waiting")
    )
    first = dict.fromkeys(running[:slots] if slots else running)
    rest = [name for name in (*running, *waiting) if name not in first]
    return AdapterNames(slots, tuple(first), tuple(dict.fromkeys(rest)))


MOST_ADAPTERS: Final = 10_000
"""Names in one label that are read."""


def _vllm_cache(infos: list[Sample]) -> tuple[float | None, int]:
    """Tokens of the KV caches of all data-parallel ranks, and tokens of a block; the labels carry them."""
    total = 0
    block = 0
    for labels, _ in infos:
        block = _whole(labels.get("block_size"))
        total += _whole(labels.get("kv_cache_size_tokens")) or _whole(labels.get("num_gpu_blocks")) * block
    return (float(total) if total else None), block


def _whole(text: str | None) -> int:
    return int(text) if text and len(text) < 16 and text.isascii() and text.isdigit() else 0


def _mean_share(samples: list[Sample] | None) -> float | None:
    """The mean of usage shares (0 to 1): data-parallel ranks have caches of one size."""
    shares = [value for _, value in samples or () if isfinite(value)]
    return sum(shares) / len(shares) if shares else None


RANKS: Final = ("dp_rank", "model_name", "engine_type")
"""Labels of SGLang that distinguish different schedulers; tp_rank, pp_rank and moe_ep_rank only repeat one."""


def _sglang(families: Families) -> _Values:
    total = _total(families.get("max_total_num_tokens"), RANKS)
    used = _total(_first(families, "num_used_tokens", "kv_used_tokens"), RANKS)
    page = _total(families.get("page_size"), ())
    share = used / total if used is not None and total else _mean_share(families.get("token_usage"))
    return _Values(
        waiting=_total(families.get("num_queue_reqs"), RANKS),
        running=_total(families.get("num_running_reqs"), RANKS),
        used_share=share,
        total_tokens=total,
        block_tokens=int(page or 1),
        models=_models(families, "num_running_reqs", "num_queue_reqs"),
        counters=_sglang_counters(families),
    )


def _sglang_counters(families: Families) -> dict[str, float]:
    counters = _counted(
        families,
        {
            "prompt_tokens": "prompt_tokens_total",
            "finished": "num_requests_total",
            "prefix_hits": "cached_tokens_total",
        },
    )
    if "prompt_tokens" in counters:  # counted when a request ends
        counters["finished_tokens"] = counters["prompt_tokens"]
        if "prefix_hits" in counters:
            counters["prefix_queries"] = counters["prompt_tokens"]
    return counters


def _llama_cpp(families: Families) -> _Values:
    usage = _mean_share(families.get("kv_cache_usage_ratio"))
    used = _total(families.get("kv_cache_tokens"))
    return _Values(
        waiting=_total(families.get("requests_deferred")),
        running=_total(families.get("requests_processing")),
        used_share=usage,
        total_tokens=used / usage if used and usage else None,
        block_tokens=1,
        models=(),
        counters=_llama_cpp_counters(families),
    )


def _llama_cpp_counters(families: Families) -> dict[str, float]:
    """It counts cached prompt tokens apart from computed ones; old versions count only the computed ones."""
    counters = _counted(families, {"prompt_tokens": "prompt_tokens_total", "prefix_hits": "prompt_tokens_cached_total"})
    if len(counters) == 2:
        counters["prompt_tokens"] += counters["prefix_hits"]
        counters["prefix_queries"] = counters["prompt_tokens"]
    return counters


VLLM: Final = [
    "num_requests_running", "num_requests_waiting", "lora_requests_info", "kv_cache_usage_perc",
    "gpu_cache_usage_perc", "cache_config_info",
    "prefix_cache_queries_total", "prefix_cache_hits_total",
    "gpu_prefix_cache_queries_total", "gpu_prefix_cache_hits_total",
    "num_preemptions_total", "prompt_tokens_total", "request_prompt_tokens_count", "request_prompt_tokens_sum",
]  # fmt: skip
SGLANG: Final = [
    "num_running_reqs", "num_queue_reqs", "token_usage", "max_total_num_tokens",
    "num_used_tokens", "kv_used_tokens", "page_size",
    "prompt_tokens_total", "cached_tokens_total", "num_requests_total",
]  # fmt: skip
LLAMA_CPP: Final = [
    "requests_processing", "requests_deferred", "kv_cache_usage_ratio", "kv_cache_tokens",
    "prompt_tokens_total", "prompt_tokens_cached_total",
]  # fmt: skip
"""The samples read of each engine's page."""

PROFILES: Final = (
    Profile("vllm", Reader("vllm", VLLM), _vllm),
    Profile("sglang", Reader("sglang", SGLANG), _sglang),
    Profile("llama.cpp", Reader("llamacpp", LLAMA_CPP), _llama_cpp),
)
"""Engine families, in the order in which a page is tried."""
