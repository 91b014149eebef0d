"""Replays real runs of vLLM: the same arrivals and lengths, the engine's own limits, latency statistics compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.catalogue.engines import apart, on_ranks
from poise.core.errors import PoiseError, TraceError, UserError
from poise.core.spec import Engine, Pool
from poise.core.units import SECOND
from poise.validation.answer import Answer
from poise.validation.assumptions import joined, named_device, named_model
from poise.validation.condition import Condition, NotCoveredError
from poise.validation.load import Load
from poise.validation.outcome import Outcome, outcome_of, statistics
from poise.validation.room import roomy
from poise.validation.row import Row
from poise.validation.served import run_of
from poise.workload.readers.inflate import gunzip
from poise.workload.table import Prefixes, Workload

SOURCE = "vllm_end_to_end"

METRICS = tuple(f"{part}_{which}_ms" for part in ("ttft", "tpot", "e2e_latency") for which in ("mean", "p50", "p99"))

_STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")
_NEEDED = ("input_toks", "output_toks", *_STAMPS)


def replay(folder: Path, tables: str = "") -> list[Answer]:
    """Answers for one recorded run; TraceError where its files cannot be read.

    tables: a file of operator tables; "" takes those that ship.
    """
    meta, config = _json(folder / "meta.json"), _json(folder / "config.json", needed=False)
    requests = sorted(_requests(folder / "requests.jsonl.gz"), key=lambda each: each["queued_ts"])
    measured = _measured(requests)
    rows = [_row(folder, meta, config, metric, measured.figure(metric, "ms")) for metric in METRICS]
    try:
        condition = _condition(rows[0], meta, len(requests))
        condition, notes = roomy(replace(condition, tables=tables))
        predicted = outcome_of(run_of(condition, _workload(requests)), condition.devices, None, 0)
    except (NotCoveredError, PoiseError) as error:
        return [Answer(row, why=str(error)) for row in rows]
    return [Answer(row, predicted.figure(row.metric, row.unit), assumed=notes) for row in rows]


def _json(path: Path, *, needed: bool = True) -> dict[str, Any]:
    if not needed and not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read ({error}); give the run's JSON file") from error
    if not isinstance(found, dict):
        raise TraceError(f"{path}: holds no JSON object; give the run's JSON file")
    return found


def _requests(path: Path) -> list[dict[str, float]]:
    try:
        lines = gunzip(path.read_bytes(), path).decode().splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read ({error}); give one JSON object a line, gzipped") from error
    for number, row in enumerate(rows, 1):
        for name in _NEEDED:
            if not isinstance(row, dict) or not isinstance(row.get(name), int | float):
                raise TraceError(f"{path}: line {number}: {name} is missing or no number; give {', '.join(_NEEDED)}")
    if not rows:
        raise TraceError(f"{path}: holds no request; give one JSON object a line, gzipped")
    return rows


def _measured(requests: Sequence[Mapping[str, float]]) -> Outcome:
    queued, first, last = (np.array([row[name] for row in requests]) for name in _STAMPS)
    output = np.array([row["output_toks"] for row in requests])
    many = output > 1
    latency = {
        "ttft": statistics(first - queued),
        "tpot": statistics((last - first)[many] / (output[many] - 1)),
        "e2e": statistics(last - queued),
    }
    return Outcome(latency, {}, 1)


def _row(folder: Path, meta: Mapping[str, Any], config: Mapping[str, Any], metric: str, value: float | None) -> Row:
    arguments = meta.get("engine_kwargs") or {}
    tensor, data = int(arguments.get("tensor_parallel_size") or 1), int(arguments.get("data_parallel_size") or 1)
    return Row(
        place=str(folder), source=SOURCE, ref=folder.name, engine="vLLM", version=str(meta.get("vllm_version") or ""),
        model=str(meta.get("model") or ""), device=_hardware(folder, meta, config), devices=tensor * data,
        tensor=tensor, pipeline=1, expert=0, data=data, precision=str(arguments.get("dtype") or ""), prompt=0.0,
        output=0.0, load="replay", batch=0, metric=metric, value=value or 0.0, unit="ms", notes="",
        disagg=False, quality="A",
    )  # fmt: skip


def _hardware(folder: Path, meta: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The device: as the run's machine reports it, else its configuration, else the folder's name."""
    stated = (meta.get("hardware") or {}).get("device_name")
    nodes = config.get("nodes") or [{}]
    placed = (nodes[0].get("instances") or [{}])[0].get("hardware")
    return str(stated or placed or folder.name.split("__")[0])


def _condition(row: Row, meta: Mapping[str, Any], requests: int) -> Condition:
    try:
        model, (device, _) = named_model(row.model), named_device(row.device)
    except UserError as error:
        raise NotCoveredError(str(error)) from None
    device, _ = joined(row.source, device, row.devices)
    arguments, kept = meta.get("engine_kwargs") or {}, meta.get("kv_cache") or {}
    engine = Engine(
        "vLLM", row.version,
        token_budget=int(arguments.get("max_num_batched_tokens") or 8192),
        max_sequences=int(arguments.get("max_num_seqs") or 256),
        kv_blocks=int(kept.get("num_gpu_blocks") or 0),
        prefix_caching=bool(kept.get("enable_prefix_caching", True)),
    )  # fmt: skip
    kv = "fp8" if "fp8" in str(arguments.get("kv_cache_dtype") or "") else "bf16"
    expert = row.tensor * row.data if arguments.get("enable_expert_parallel") else 1
    pool = Pool(model, device, tensor=row.tensor, data=row.data, expert=expert, kv=kv, engine=engine)  # type: ignore[arg-type]
    pool = on_ranks(apart(pool))  # of blocks vLLM states the sum over ranks itself
    return Condition((pool,), Load("rate", requests=requests), 1.0, 1.0, row.devices, "vLLM", row.version)


def _workload(requests: Sequence[Mapping[str, float]]) -> Workload:
    begin = requests[0]["queued_ts"]
    return Workload(
        np.array([round((row["queued_ts"] - begin) * SECOND) for row in requests], dtype=np.int64),
        np.array([row["input_toks"] for row in requests], dtype=np.int32),
        np.array([row["output_toks"] for row in requests], dtype=np.int32),
        prefixes=_own_prompts(np.array([row["input_toks"] for row in requests], dtype=np.int32)),
    )


def _own_prompts(tokens: NDArray[np.int32]) -> Prefixes:
    """Prompts that differ from their first token on: one that was preempted may still find its own blocks."""
    count = len(tokens)
    return Prefixes(np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int64), tokens)
