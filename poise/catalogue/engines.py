"""What serving engines do where nothing is stated: their own defaults by version, each with its source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.names import key
from poise.core.spec import Cluster, Device, Engine, Format, Pool

_DATA = Path(__file__).with_name("engines.json")


@dataclass(frozen=True, slots=True)
class Reached:
    """The efficiency of an engine's kernels on a device: parts of the datasheet's arithmetic and bandwidth, next to its
    measured relatives, and the time to launch a layer's kernels, and further where several devices work together."""

    arithmetic: float = 1.0
    bandwidth: float = 1.0
    layer_s: float = 0.0
    joined_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """The defaults of one engine from one version on.

    token_budget, max_sequences, memory_fraction: as in `Engine`.
    step_s, sequence_s: host time of a step and of each sequence in it that the device waits for (the estimator's
        own defaults where no engine is known better).
    joined_step_s, joined_sequence_s: further of both where several devices have processes that get each step.
    front_s, front_token_s: what a server adds before the first token, and for each token of the prompt.
    handed_s: what passes between a prompt's end on one replica and its decoding on another, beside the transfer's bytes
        and the steps of both: the second dispatch, setting the transfer up, and the news of its end.
    draft_s: time of each run of a draft head beyond its layer's.
    captured: sizes of batches whose decode steps are captured as graphs (`poise.cost.captured.padded`).
    quantised_kv: the format of KV values with quantised weights, where not stated.
    ahead: the next step is composed while one runs (asynchronous scheduling).
    prefill_first: steps compute prompts alone while any waits, where others mix them with decodes.
    composes: the batcher that is this engine's own, "" for one that the fields here choose.
    preempt: its preemption policy.
    ungrouped: makers of devices on which decode attention reads keys and values for each query head, not once for the
        heads that share them, and how many times longer than its bytes take that lasts.
    reached: by device, by maker or ("") for all others, where kernels are far from those that were measured; with
        " experts" behind the name for mixtures of experts alone.
    splits_layers: several devices hold a part of the layers each and take turns, where others split every layer.
    free_fraction: KV's part of the memory that weights and workspace leave, where it is not `memory_fraction` of all.
    no_evict: whether requests are admitted only while memory holds all of them to their ends.
    shares_limits: whether its limits are those of a replica and its data ranks of attention share them, where others
        have them for each rank.
    stages: whether stages of layers are a layout that its users choose for throughput.
    known: whether the engine is in the list; others are taken to be like vLLM.
    """

    name: str
    since: str
    token_budget: int
    max_sequences: int
    source: str
    memory_fraction: float = 0.9
    step_s: float = 0.5e-3
    sequence_s: float = 5e-6
    joined_step_s: float = 0.0
    joined_sequence_s: float = 0.0
    front_s: float = 0.0
    front_token_s: float = 0.0
    handed_s: float = 0.0
    draft_s: float = 0.0
    captured: Sequence[tuple[int, int]] = field(default=(), hash=False)
    quantised_kv: Format = "bf16"
    ahead: bool = False
    prefill_first: bool = False
    composes: str = ""
    preempt: str = "last_admitted"
    ungrouped: Mapping[str, float] = field(default_factory=dict, hash=False)
    reached: Mapping[str, Reached] = field(default_factory=dict, hash=False)
    splits_layers: bool = False
    free_fraction: float = 0.0
    no_evict: bool = False
    shares_limits: bool = False
    stages: bool = False
    known: bool = True

    @property
    def batcher(self) -> str:
        """The batcher that composes steps as this engine does."""
        if self.composes:
            return self.composes
        if self.prefill_first:
            return "prefill_first"
        return "asynchronous" if self.ahead else "chunked"

    def reached_on(self, device: Device, *, experts: bool = False) -> Reached:
        """What this engine makes of `device`: its own row, its maker's, the one for all, or all of the datasheet.

        experts: whether the model is a mixture of experts, which may have a row of its own.
        """
        names = (device.name, device.vendor, "")
        for name in (*(f"{name} experts" for name in names if experts), *names):
            if name in self.reached:
                return self.reached[name]
        return Reached()

    def front(self, prompt: float) -> float:
        """Seconds that a server adds before the first token of a prompt of `tokens` tokens."""
        return self.front_s + self.front_token_s * prompt

    def engine(self, version: str = "", **stated: int) -> Engine:
        """An `Engine` with these defaults; `stated` replaces them."""
        figures = {"token_budget": self.token_budget, "max_sequences": self.max_sequences, **stated}
        return Engine(self.name, version or "not stated", memory_fraction=self.memory_fraction, **figures)  # type: ignore[arg-type]


def engine_defaults(name: str, version: str = "") -> EngineDefaults:
    """The defaults of engine `name` (any spelling, "TensorRT-LLM + Triton backend" too) at `version`.

    A version that is not stated is the newest. An engine that is not in the list has vLLM's, and `known` is false.
    """
    for start in re.finditer(r"(?<![^\W_])[^\W_]", f"{name} "):  # `Dynamo (SGLang)`: what serves beneath
        wanted = key(name[start.start() :])
        for row in _table():
            if any(wanted.startswith(alias) for alias in row[0]):
                return _fitting(row[1], version)
    return replace(_fitting(_table()[0][1], version), name=name, known=False)


def limit_ranks(pool: Pool) -> int:
    """How many times its engine's own limits hold in a replica of `pool`: once for each data rank that has its own.

    vLLM's max_num_seqs and max_num_batched_tokens and TensorRT-LLM's max_batch_size and max_num_tokens are a rank's.
    SGLang's max_running_requests and chunked_prefill_size are divided among the ranks of one model; models without
    experts have no such ranks, but whole copies.
    """
    shared = pool.model.moe is not None and engine_defaults(pool.engine.name).shares_limits
    return 1 if shared else pool.data


def on_ranks(pool: Pool) -> Pool:
    """`pool`, whose engine has the limits of its settings, with those of a whole replica (see `limit_ranks`).

    No prompt has more tokens in a step than the rank that computes it has a budget for.
    """
    ranks, engine = limit_ranks(pool), pool.engine
    budget, sequences = engine.token_budget * ranks, engine.max_sequences * ranks
    own = budget // pool.data if pool.data > 1 else 0
    return replace(pool, engine=replace(engine, token_budget=budget, max_sequences=sequences, rank_budget=own))


def apart(pool: Pool) -> Pool:
    """`pool`, whose engine has the limits of its settings, with data ranks that are whole copies as replicas.

    Ranks of a model without experts share no step: each has its own queue and KV, so blocks that are stated for all of
    them are divided. A mixture's ranks work together, and stay one replica (`on_ranks`).
    """
    if pool.model.moe is not None or pool.data == 1:
        return pool
    engine = replace(pool.engine, kv_blocks=pool.engine.kv_blocks // pool.data)
    return replace(pool, replicas=pool.replicas * pool.data, data=1, engine=engine)


def handing_over(cluster: Cluster, known: EngineDefaults) -> Cluster:
    """`cluster`, whose prompts are handed over as an engine does it (`handed_s`), where pools compute prompts alone."""
    if not known.handed_s or all(pool.role != "prefill" for pool in cluster.pools):
        return cluster
    return replace(cluster, link_latency_s=known.handed_s)


def _fitting(versions: tuple[EngineDefaults, ...], version: str) -> EngineDefaults:
    return [each for each in versions if not _numbers(version) or _numbers(each.since) <= _numbers(version)][-1]


@cache
def _table() -> tuple[tuple[tuple[str, ...], tuple[EngineDefaults, ...]], ...]:
    """For each engine its compared names and its defaults, older versions first."""
    rows = json.loads(_DATA.read_text(encoding="utf-8"))
    return tuple(
        (tuple(row["aliases"]), tuple(_version(row["name"], each) for each in row["versions"])) for row in rows
    )


def _version(name: str, row: dict[str, Any]) -> EngineDefaults:
    reached = {where: Reached(**each) for where, each in row.pop("reached", {}).items()}
    return EngineDefaults(name, reached=reached, **row)


def _numbers(version: str) -> tuple[int, ...]:
    """The first dotted number in `version`; empty where there is none."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return tuple(map(int, found.group().split("."))) if found else ()
