"""From the fields of a row to what is simulated: pools, lengths and load, with all assumptions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from typing import Literal

from poise.catalogue.engines import EngineDefaults, engine_defaults, limit_ranks
from poise.catalogue.models import published_format
from poise.catalogue.spelling import counted, format_spelled
from poise.core.errors import CapacityError, UserError
from poise.core.model import Model
from poise.core.spec import Device, Engine, Format, Pool
from poise.cost import kv_blocks
from poise.cost.memory import footprint
from poise.validation.assumptions import (
    Scenario,
    era_of,
    held_format,
    joined,
    named_device,
    named_format,
    named_model,
    narrowest,
    scenario_of,
    source_kv,
)
from poise.validation.attention_ranks import attention_ranks
from poise.validation.borrow import borrows
from poise.validation.layouts import Side
from poise.validation.load import TARGET, Load, load_of
from poise.validation.row import SILENT, Row
from poise.validation.setup import UNKNOWN, Setup, of_inferencex, setup_of

WIDEST_MLA = 8
"""Ranks over which latent attention is cut, where more clients than `RANK_CLIENTS` share each of a wider group."""

RANK_CLIENTS = 32
"""Clients of a rank from which on data ranks are taken to be meant: every rank of a tensor group keeps all latents."""

SWEEP_BUDGET = 2048
"""Tokens of a step in a vendor's sweep, and a whole prompt at least: engines set up for the nominal prompt."""

_BUDGET = re.compile(r"max_num_batched_tokens=(\d+)")
_SEQUENCES = re.compile(r"max_num_seqs=(\d+)")
_BLOCKS = re.compile(r"KV blocks=(\d+)")
_TOKENS = re.compile(r"KV tokens=(\d+)")
_COLD = re.compile(r"\bcold_s=(\d+(?:\.\d+)?)")
_WORKERS = re.compile(r"(prefill|decode) workers=(\?|\d+) x \(tp(\d+),dp(\d+)(?:,moe_tp(\d+))?(?:,ep(\d+))?\)")
_LAYOUT_WORDS = re.compile(r"parallelism type: ([^;]*)")
_DEGREE = re.compile(r"\b(TP|PP|EP|Tensor|Pipeline|Expert)\b(?: *[=(] *(\d+))?")
_STATED_GEMM = re.compile(r"\bgemm=(\w+)")


class NotCoveredError(Exception):
    """A row cannot be answered; the text says why, and names what is missing."""


HALVES = "two devices a chip"
"""In the notes of a row whose engine takes each chip for two devices, as JAX does on TPU v7x."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The simulation's input for a row; rows of equal conditions share a simulation.

    pools: one, or the prefill and the decode pool.  replicas of a pool count its instances.
    prompt, output: mean tokens before `Load.spread`.  scenario: of rows that name one; their layout is to be chosen.
    devices: of the whole measurement.  setup: what its scripts set besides the engine's defaults.
    tables: a file of operator tables that answers it; "" for those that ship.
    """

    pools: tuple[Pool, ...]
    load: Load
    prompt: float
    output: float
    devices: int
    engine: str
    version: str
    scenario: Scenario | None = None
    setup: Setup = UNKNOWN
    tables: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A condition with its assumptions."""

    condition: Condition
    assumed: tuple[str, ...]


def read_condition(row: Row) -> Reading:
    """The condition that `row` describes; NotCoveredError where it is incomplete or names something unknown."""
    notes = TARGET.sub("", row.notes) if "throughput" in row.metric else row.notes  # a rate would answer itself
    return _read(replace(row, place="", metric="", value=1.0, unit="", notes=notes))


@cache
def _read(row: Row) -> Reading:
    assumed: list[str] = [note for note in (borrows(row),) if note]
    model, device = _named(row, assumed)
    row = _of_chips(replace(row, devices=row.devices or counted(row.device)), assumed)
    load = load_of(row.load, row.notes)
    if load.kind == "unknown":
        raise NotCoveredError(f"the load is not stated: {row.load or 'no words'}")
    version, era = era_of(row.source, row.engine, row.version, row.notes)
    assumed += filter(None, (era,))
    defaults = engine_defaults(row.engine, version)
    weights, kv = _formats(row, device, defaults, assumed)
    if not defaults.known:
        assumed.append(f"engine {row.engine or 'not stated'}: batches like vLLM")
    scenario = None
    if load.kind in ("offline", "server", "interactive") or not row.prompt:
        scenario = scenario_of(model)
        if scenario is None:
            raise NotCoveredError(f"the lengths of {row.load or 'the load'} with {row.model} are not known")
        assumed.append(f"lengths of {scenario.name}")
    prompt = row.prompt or (scenario.prompt if scenario else 0.0)
    output = row.output or (scenario.output if scenario else 0.0)
    if prompt < 1 or output < 1:
        raise NotCoveredError("the lengths are not stated")
    if prompt + output > model.max_context:
        assumed.append(f"{prompt + output:,.0f} tokens, beyond the {model.max_context:,} that {model.name} is made for")
    setup, notes = setup_of(row, model, device, weights, load.clients)
    assumed += notes
    base = Pool(model, device, weights=weights, kv=kv, engine=_engine(row, load, defaults, setup))
    pools = tuple(_kept(pool, defaults) for pool in _pools(row, base, defaults, load, setup, assumed))
    devices = sum(pool.devices * pool.replicas for pool in pools)
    condition = Condition(
        pools,
        load,
        prompt,
        output,
        row.devices or devices,
        row.engine,
        version,
        scenario if not row.tensor else None,
        setup,
    )
    return Reading(condition, tuple(assumed))


def _of_chips(row: Row, assumed: list[str]) -> Row:
    """The row with degrees that count chips, as `devices` does, where it says that they count the halves of one."""
    if HALVES not in row.notes or row.tensor % 2:
        return row
    assumed.append(f"tensor degree {row.tensor} counts halves of a chip: {row.tensor // 2}")
    return replace(row, tensor=row.tensor // 2)


def _named(row: Row, assumed: list[str]) -> tuple[Model, Device]:
    try:
        model = named_model(row.model)
    except UserError:
        raise NotCoveredError(f"model {row.model} is not in the catalogue") from None
    try:
        device, note = named_device(row.device)
    except UserError:
        raise NotCoveredError(f"device {row.device} is not in the catalogue") from None
    device, link = joined(row.source, device, row.devices)
    assumed += filter(None, (note, link))
    return model, device


def _formats(row: Row, device: Device, defaults: EngineDefaults, assumed: list[str]) -> tuple[Format, Format]:
    """Weights and KV values; a format in the notes or in the model's name fills an empty column, then the one
    that the model is published in."""
    weights, _, kv = row.precision.partition("/")
    stated = _STATED_GEMM.search(row.notes)
    if _silent(weights):
        weights = stated[1] if stated else format_spelled(row.model) or weights
    try:
        found, text = named_format(weights)
        kept, _ = named_format(kv)
    except UserError as error:
        raise NotCoveredError(str(error)) from None
    if _silent(weights) and row.source.startswith("mlperf"):
        found, text = narrowest(device)
    elif not _silent(weights):
        found, narrower = held_format(named_model(row.model), row.model, found)
        text = narrower or text
    elif (published := published_format(row.model)) != "bf16":
        found, text = published, f"precision not stated: {published}, as {row.model} is published"
    assumed += filter(None, (text,))
    if _silent(kv):
        of_source, why = source_kv(row.source, row.model, device)
        kept = of_source or _silent_kv(row, found, defaults)
        assumed.append(why or f"KV values in {kept}, not stated")
    return found, kept if kept in ("bf16", "fp8") else "bf16"


def _silent(words: str) -> bool:
    return words.strip().lower() in (*SILENT, "not stated", "unset", "unknown", "auto")


def _silent_kv(row: Row, weights: Format, defaults: EngineDefaults) -> Format:
    """The engine's KV format for such weights; tuned benchmarks (MLPerf, InferenceX) have FP8 with FP8 and FP4."""
    if weights not in ("fp8", "fp4"):
        return "bf16"
    tuned = row.source.startswith("mlperf") or of_inferencex(row)
    return "fp8" if tuned else defaults.quantised_kv


def _engine(row: Row, load: Load, defaults: EngineDefaults, setup: Setup) -> Engine:
    """The engine's own limits, and those in the notes; a closed load is never held back by the sequences."""
    stated, recipe = {}, setup.recipe
    if recipe.token_budget:
        stated["token_budget"] = recipe.token_budget
    if recipe.prompt_and:
        stated["token_budget"] = max(defaults.token_budget, int(row.prompt) + load.clients + recipe.prompt_and)
    if found := _BUDGET.search(row.notes):
        stated["token_budget"] = int(found[1])
    if found := _SEQUENCES.search(row.notes):
        stated["max_sequences"] = int(found[1])
    elif load.kind == "closed":
        stated["max_sequences"] = max(load.clients, row.batch, 1)
        if "vendor sweep" in row.notes:
            stated["token_budget"] = max(int(row.prompt), SWEEP_BUDGET)
    elif row.batch and load.kind in ("rate", "queued"):
        stated["max_sequences"] = row.batch
    engine = defaults.engine(row.version, **stated)
    blocks = int(found[1]) if (found := _BLOCKS.search(row.notes)) else 0
    if found := _TOKENS.search(row.notes):
        blocks = int(found[1]) // engine.block_tokens
    cold_s = float(found[1]) if (found := _COLD.search(row.notes)) else 0.0
    return replace(engine, kv_blocks=blocks, prefix_caching=load.system > 0, cold_s=cold_s)


def _pools(
    row: Row, base: Pool, defaults: EngineDefaults, load: Load, setup: Setup, assumed: list[str]
) -> tuple[Pool, ...]:
    layout = setup.layout
    if row.disagg and layout is not None and layout.prefill is not None:
        first = _configured(base, "prefill", layout.prefill)
        parts = layout.prefill.parts
        first = _admitting(first, layout.prefill_batch * parts, layout.prefill_tokens * parts)
        return first, _admitting(_configured(base, "decode", layout.decode), layout.sequences, 0)
    sides = {side: rest for side, *rest in _WORKERS.findall(row.notes)}
    if row.disagg:
        if set(sides) != {"prefill", "decode"}:
            raise NotCoveredError("prefill and decode are apart, but their layouts are not stated")
        return tuple(_side(base, side, sides[side], load.clients, assumed) for side in ("prefill", "decode"))
    row = _stated_layout(row)
    tensor, data = max(row.tensor, 1), max(row.data, 1)
    pipeline = max(row.pipeline, 1)
    if not row.tensor and row.devices:
        tensor = row.devices if load.kind not in ("offline", "server", "interactive") else 1
    if data > 1 and row.devices and tensor * pipeline * data > row.devices and tensor % data == 0:
        tensor //= data  # attention's data ranks counted inside the tensor group
    if data == 1:
        data = tensor if setup.attention_dp else attention_ranks(row.notes, tensor)
        tensor //= data
    if defaults.splits_layers and tensor > 1:
        tensor, pipeline = 1, tensor * pipeline
        assumed.append(f"{defaults.name} splits layers over {pipeline} devices")
    pool = _laid(base, tensor, pipeline, data, max(row.expert, 1))
    replicas = row.devices // pool.devices if row.devices > pool.devices and row.tensor else 1
    return (replace(pool, replicas=max(replicas, 1)),)


def _stated_layout(row: Row) -> Row:
    """The row with the degrees that its notes state in words, where its columns are empty: `TP = 2 and PP = 2`, `EP`.

    A kind without a number is meant for all devices. Experts spread over ranks that else cut every layer.
    """
    words = _LAYOUT_WORDS.search(row.notes)
    if row.tensor or not words or not row.devices:
        return row
    degree = {kind[0].upper(): int(number or row.devices) for kind, number in _DEGREE.findall(words[1])}
    pipeline, expert = degree.get("P", 1), degree.get("E", 0)
    return replace(row, tensor=max(1, row.devices // pipeline), pipeline=pipeline, expert=expert or row.expert)


def _configured(base: Pool, role: Literal["prefill", "decode"], side: Side) -> Pool:
    """One side of a pair of pools as its configuration has it."""
    tensor, data = (1, side.ranks) if side.shared else (side.ranks, 1)
    return replace(_laid(base, tensor, 1, data, side.expert), role=role, replicas=side.workers)


def _admitting(pool: Pool, sequences: int, tokens: int) -> Pool:
    """The pool with the limits of its recipe, 0 for those that it does not have."""
    engine = pool.engine
    sequences, tokens = sequences or engine.max_sequences, tokens or engine.token_budget
    rank = max(1, tokens // pool.data) if pool.data > 1 else 0
    return replace(pool, engine=replace(engine, max_sequences=sequences, token_budget=tokens, rank_budget=rank))


def _side(base: Pool, role: str, fields: list[str], clients: int, assumed: list[str]) -> Pool:
    """One side of a pair of pools from its notes; 0 replicas stand for a number that is not stated."""
    workers, tensor, data, _, expert = fields
    pool = _laid(base, int(tensor), 1, max(int(data), 1), int(expert or 1), clients if workers == "?" else 0)
    if workers != "?":
        return replace(pool, role=role, replicas=max(int(workers), 1))  # type: ignore[arg-type]
    assumed.append(f"as many {role} workers as are balanced, their number is not stated")
    return replace(_held(pool, role, assumed), role=role, replicas=0)  # type: ignore[arg-type]


def _kept(pool: Pool, defaults: EngineDefaults) -> Pool:
    """The pool with its share of all memory, for an engine that counts its share of what is left free.

    f of what is left besides the need n is f + (1 − f)·n/M of all M.
    """
    if not defaults.free_fraction:
        return pool
    need = footprint(pool)
    left, taken = defaults.free_fraction, (need.weights + need.workspace) / pool.device.memory_bytes
    return replace(pool, engine=replace(pool.engine, memory_fraction=left + (1 - left) * min(taken, 1.0)))


def _held(pool: Pool, role: str, assumed: list[str]) -> Pool:
    """The pool on twice the devices, repeatedly, until they hold the model: a smaller layout cannot have been run."""
    tensor = pool.tensor
    while tensor < WIDEST_MLA and not _fits(replace(pool, tensor=tensor)):
        tensor *= 2
    if tensor > pool.tensor:
        assumed.append(f"tensor {tensor} for {role}, {pool.tensor} cannot hold the model")
    return replace(pool, tensor=tensor)


def _fits(pool: Pool) -> bool:
    try:
        return kv_blocks(pool) > 0
    except CapacityError:
        return False


def _laid(base: Pool, tensor: int, pipeline: int, data: int, expert: int, clients: int = 0) -> Pool:
    """The layout; each data rank has the engine's limits for itself. Experts spread over what their degree divides,
    and over all ranks where those cannot cut each of them evenly.

    A tensor degree that does not divide the heads is one of data ranks, and so is one of many latent ranks that
    `clients` crowd: sources that do not tell attention's layout from the experts' write it so.
    """
    engine = base.engine
    crowded = base.model.mla is not None and tensor > WIDEST_MLA and clients > RANK_CLIENTS * tensor
    if base.model.heads % tensor or crowded:
        tensor, data = 1, tensor * data
    moe = base.model.moe
    expert = gcd(expert, tensor * data) if moe else 1
    if moe and moe.ffn % (tensor * data // expert):
        expert = tensor * data
    pipeline = min(pipeline, base.model.layers)
    pool = replace(base, tensor=tensor, pipeline=pipeline, data=data, expert=expert)
    if data == 1:
        return pool
    budget = engine.token_budget * limit_ranks(pool)  # sequences are those of the whole load already
    return replace(pool, engine=replace(engine, token_budget=budget, rank_budget=max(1, budget // data)))
