"""What a checkpoint quantises: `quantization_config` of a config.json, or ModelOpt's hf_quant_config.json, by part.

Read are the methods fp8, mxfp4, compressed-tensors, modelopt, awq and gptq; others (bitsandbytes, GGUF) are not.
Embeddings and the output head count as quantised only where a file lists them as such; engines load both in 16 bits
otherwise, whether or not the file excludes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from poise.core.model import Model
from poise.core.precision import PARTS, PLAIN, Format, Part, Precision, Store

_PUBLISHED = Path(__file__).with_name("checkpoints.json")

BLOCK_BITS = 32
"""Bits of the scale of a block of FP8 values (DeepSeek-V3: `weight_scale_inv`)."""

_LISTED = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")
_ALGORITHMS = {
    "FP8": Store("fp8", 8), "FP8_PB_WO": Store("fp8", 8), "MXFP8": Store("fp8", 8.25), "NVFP4": Store("fp4", 4.5),
    "W4A16_NVFP4": Store("fp4", 4.5), "MXFP4": Store("mxfp4", 4.25), "W4A16_AWQ": Store("int4", 4.125),
    "W4A8_AWQ": Store("int4", 4.125), "W8A8_SQ_PER_CHANNEL": Store("int8", 8),
}  # fmt: skip
"""ModelOpt's `quant_algo`."""

_ROOTS = ("model.", "model.language_model.", "language_model.model.", "")
_MOE = ("mlp", "block_sparse_moe", "ffn")


class Module(NamedTuple):
    """One kind of matrix of one layer: the part that it belongs to, its weights, and the names that files give it."""

    part: Part
    weights: float
    names: tuple[str, ...]


class Rule(NamedTuple):
    """A store for the modules that some patterns match; all where there are none."""

    store: Store
    patterns: Sequence[re.Pattern[str]]


def checkpoints_of(stated: object, model: Model, name: str = "") -> tuple[tuple[Format, Precision], ...]:
    """The formats in which `model` is published, and the parts that they narrow.

    stated: the `quantization_config` of its own files, if any.  name: of a built-in model, whose other published
    checkpoints count too; of several in one format the first does.  FP4 is found as MXFP4 too where it is that.
    """
    files = [stated] if isinstance(stated, Mapping) else []
    files += [row["config"] for row in published() if row["model"] == name]
    found: dict[Format, Precision] = {}
    for each in files:
        read = precision_of(each, model)
        if read is not None:
            found.setdefault(*read)
            if "mxfp4" in (read[1].experts.format, read[1].dense.format):
                found.setdefault("mxfp4", read[1])
    return tuple(found.items())


@cache
def published() -> tuple[dict[str, Any], ...]:
    """Checkpoints of built-in models with what their files say, and, where it is known, the size of their weights."""
    return tuple(json.loads(_PUBLISHED.read_text(encoding="utf-8")))


def precision_of(stated: Mapping[str, Any], model: Model) -> tuple[Format, Precision] | None:
    """The narrowest format in a quantisation file and the parts of `model` that have it; None where none is read."""
    rules = list(_rules(stated))
    if not rules:
        return None
    left_out = [_pattern(each) for name in _LISTED for each in stated.get(name) or ()]
    bits = dict.fromkeys(PARTS, 0.0)
    weights: dict[Part, dict[Format, float]] = {part: {} for part in PARTS}
    for module in _modules(model):
        store = _store(module, rules, left_out)
        bits[module.part] += store.bits * module.weights
        shares = weights[module.part]
        shares[store.format] = shares.get(store.format, 0.0) + module.weights
    found = {
        part: Store(max(shares, key=lambda form: shares[form]), bits[part] / sum(shares.values()))
        for part, shares in weights.items()
        if sum(shares.values())
    }
    narrow = min(found.values(), key=lambda store: store.bits).format
    if narrow == "bf16":
        return None
    return ("fp4" if narrow == "mxfp4" else narrow), Precision.by_part(found, _kv(stated))


def _store(module: Module, rules: Sequence[Rule], left_out: Sequence[re.Pattern[str]]) -> Store:
    if _matches(module.names, left_out):
        return PLAIN
    for rule in rules:
        named = bool(rule.patterns)
        if named and _matches(module.names, rule.patterns):
            return rule.store
        if not named and module.part not in ("head", "embedding"):
            return rule.store
    return PLAIN


def _matches(names: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> bool:
    return any(pattern.match(root + name) for pattern in patterns for name in names for root in _ROOTS)


def _pattern(text: str) -> re.Pattern[str]:
    """What a name in a list matches: an expression after `re:`, a glob, a whole module or a part of its name."""
    if text.startswith("re:"):
        return re.compile(text[3:])
    if "*" in text:
        glob = translate(text).removesuffix(r"\z").removesuffix(r"\Z")
        return re.compile(rf"{glob}(\..*)?$")
    return re.compile(rf"(.*\.)?{re.escape(text)}(\..*)?$")


def _rules(stated: Mapping[str, Any]) -> Iterator[Rule]:
    """The stores that a file states, the first that matches counts."""
    by_layer = stated.get("quantized_layers")
    if isinstance(by_layer, Mapping):
        for name, each in by_layer.items():
            if (store := _ALGORITHMS.get(str(each.get("quant_algo")))) is not None:
                yield Rule(store, [_pattern(str(name))])
    method, algorithm = str(stated.get("quant_method", "")), str(stated.get("quant_algo", ""))
    if algorithm in _ALGORITHMS:
        yield Rule(_ALGORITHMS[algorithm], [])
    elif method == "fp8":
        if stated.get("expert_dtype") == "fp4":
            yield Rule(_ALGORITHMS["MXFP4"], [_pattern("*.experts.*")])
        yield Rule(Store("fp8", 8 + _block_bits(stated.get("weight_block_size"))), [])
    elif method == "mxfp4":
        yield Rule(_ALGORITHMS["MXFP4"], [_pattern("*.experts.*")])
    elif method in ("awq", "gptq"):
        bits, group = int(stated.get("bits", 4)), int(stated.get("group_size", 128))
        scales = (16 + bits) / group if group > 0 else 0.0
        yield Rule(Store("int4" if bits <= 4 else "int8", bits + scales), [])
    elif isinstance(groups := stated.get("config_groups"), Mapping):
        for group in groups.values():
            if (held := _group(group.get("weights") or {})) is not None:
                targets = [each for each in group.get("targets") or () if each != "Linear"]
                yield Rule(held, [_pattern(each) for each in targets])


def _group(weights: Mapping[str, Any]) -> Store | None:
    """The store of a group of compressed-tensors: numbers or integers of so many bits, a scale for so many of them."""
    bits, size = int(weights.get("num_bits", 16)), int(weights.get("group_size") or 0)
    if weights.get("type") == "int" and bits <= 8:
        return Store("int4" if bits <= 4 else "int8", bits + (16 / size if size > 0 else 0.0))
    if bits == 8:
        return Store("fp8", 8 + (_block_bits(weights.get("block_structure")) or (8 / size if size > 0 else 0.0)))
    if bits == 4:
        return Store("mxfp4" if size == 32 else "fp4", 4 + 8 / (size or 16))
    return None


def _block_bits(sides: object) -> float:
    """Bits of scales by the value, for one scale a block with these sides."""
    return BLOCK_BITS / (sides[0] * sides[1]) if isinstance(sides, list) and len(sides) == 2 else 0.0


def _kv(stated: Mapping[str, Any]) -> Format | None:
    """The format of KV values that the file asks for."""
    scheme = stated.get("kv_cache_scheme")
    eight = isinstance(scheme, Mapping) and scheme.get("num_bits") == 8
    return "fp8" if eight or "FP8" in (scheme, stated.get("kv_cache_quant_algo")) else None


def _modules(model: Model) -> Iterator[Module]:
    """The matrices of `model` by the names of its class; its dense layers are taken to be the first."""
    sizes = model.part_parameters
    gated = ("gate_proj", "up_proj", "down_proj")
    for layer in range(model.layers):
        at = f"layers.{layer}."
        queries = _projections(model)
        hybrid = model.linear_layers > 0  # which of its layers are linear is not kept, so that either name counts
        for name in queries:
            names = (f"{at}self_attn.{name}", *([f"{at}linear_attn.in_proj_qkv"] if hybrid else []))
            yield Module("attention", sizes["attention"] / model.layers / len(queries), names)
        names = (f"{at}self_attn.o_proj", *([f"{at}linear_attn.out_proj"] if hybrid else []))
        yield Module("output", sizes["output"] / model.layers, names)
        if layer < model.dense_layers:
            for name in gated:
                yield Module("dense", model.ffn_parameters / 3, (f"{at}mlp.{name}", f"{at}ffn.{name}"))
            continue
        if model.moe is None:  # a layer without a block
            continue
        for name, short in zip(gated, ("w1", "w3", "w2"), strict=True):
            if model.moe.shared:
                shared = [
                    f"{at}{block}.{each}.{name}" for block in _MOE for each in ("shared_experts", "shared_expert")
                ]
                yield Module("shared", model.shared_parameters / 3, tuple(shared))
            experts = [f"{at}{block}.experts.0.{each}" for block in _MOE for each in (name, short)]
            yield Module("experts", model.moe.experts * model.expert_parameters / 3, tuple(experts))
    yield Module("head", sizes["head"], ("lm_head",))
    if sizes["embedding"]:
        yield Module("embedding", sizes["embedding"], ("embed_tokens",))


def _projections(model: Model) -> tuple[str, ...]:
    if model.mla is None:
        return "q_proj", "k_proj", "v_proj"
    queries = ("q_a_proj", "q_b_proj") if model.mla.q_rank else ("q_proj",)
    return (*queries, "kv_a_proj_with_mqa", "kv_b_proj")
