"""Reads exported settings as strictly as their trainers do, by the options recorded from them in `known.json`."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

KNOWN: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "known.json").read_text())


def megatron_args(text: str) -> dict[str, Any]:
    """Arguments by name, as `$(cat megatron.args)` hands them on: words between blanks, quotes as they stand."""
    found: dict[str, Any] = {}
    words = text.split()
    while words:
        name = words.pop(0).removeprefix("--")
        assert name not in found, f"--{name} twice"
        kind = KNOWN["megatron"][name]
        if name == "recompute-modules":  # one or more words
            found[name] = [words.pop(0) for _ in range(_leading(words))]
            assert found[name]
        else:
            found[name] = True if kind == "flag" else _value(kind, words.pop(0))
    _consistent(found)
    return found


def _leading(words: list[str]) -> int:
    """How many words come before the next option."""
    return next((at for at, word in enumerate(words) if word.startswith("--")), len(words))


def _value(kind: list[Any], word: str) -> Any:
    of, choices = kind
    assert not choices or word in choices, f"{word} is none of {choices}"
    assert not word.startswith("--") and '"' not in word and "'" not in word, word
    return {"int": int, "float": float, "moe_freq_type": _frequency}.get(of, str)(word)


def _frequency(word: str) -> list[int]:
    """Ones for layers with experts: a sum of `[0]*3` and the like."""
    parts = [part.partition("*") for part in word.strip("()").split("+")]
    return [int(each.strip("[]")) for each, _, count in parts for _ in range(int(count))]


def _consistent(found: Mapping[str, Any]) -> None:
    """The rules of Megatron-LM's `validate_args` that the exports can break."""
    layouts = (
        "num-layers-per-virtual-pipeline-stage",
        "num-virtual-stages-per-pipeline-rank",
        "pipeline-model-parallel-layout",
    )
    assert sum(each in found for each in layouts) <= 1
    ranks, depth = found["pipeline-model-parallel-size"], found["num-layers"]
    if ranks > 1:
        stages = layers_of(found["pipeline-model-parallel-layout"])
        assert len(stages) % ranks == 0 and sum(stages) == depth
    if "optimizer-cpu-offload" in found:
        assert "use-precision-aware-optimizer" in found and "use-distributed-optimizer" in found
    if "use-megatron-fsdp" in found:
        assert found["ckpt-format"] == "fsdp_dtensor" and ranks == 1
    if "overlap-param-gather" in found:
        assert "overlap-grad-reduce" in found and "use-distributed-optimizer" in found
    assert not {"multi-latent-attention", "group-query-attention"} <= set(found)
    assert found["max-position-embeddings"] >= found["seq-length"]
    assert found["padded-vocab-size"] % found["tensor-model-parallel-size"] == 0
    groups, tensor = found.get("num-query-groups", found["num-attention-heads"]), found["tensor-model-parallel-size"]
    assert groups % tensor == 0 or tensor % groups == 0
    if "moe-layer-freq" in found:
        assert len(found["moe-layer-freq"]) == depth
    modules = set(found.get("recompute-modules", ()))
    assert modules <= {"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"}
    assert "moe_act" not in modules or "moe-grouped-gemm" in found
    assert "mla_up_proj" not in modules or "multi-latent-attention" in found
    if "fp8-format" in found and modules & {"moe_act", "layernorm"}:
        assert found.get("fp8-recipe", "delayed") != "delayed"
    if found.get("recompute-granularity") == "full":
        assert found["recompute-method"] in ("uniform", "block") and found["recompute-num-layers"] >= 1


def layers_of(text: str) -> list[int]:
    """The layers of each stage by a pipeline layout: `(x)*n` is x n times, `|` parts stages, E and L come once."""
    while "(" in text:
        before, _, rest = text.partition("(")
        inner, _, rest = rest.partition(")*")
        digits = len(rest) - len(rest.lstrip("0123456789"))
        text = before + inner * int(rest[:digits]) + rest[digits:]
    assert set(text) <= set("EtL|") and text.count("E") == text.count("L") == 1
    assert text[0] == "E" and text[-1] == "L"
    return [stage.count("t") for stage in text.split("|")]


def torchtitan_fields(text: str, version: str) -> dict[str, dict[str, Any]]:
    """The fields of both dataclasses in a settings file of a version, each of which it has."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KNOWN[version]:
            given = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
            assert set(given) <= set(KNOWN[version][node.func.id])
            found[node.func.id] = given
    ranks, training = found["ParallelismConfig"], found["TrainingConfig"]
    if ranks["pipeline_parallel_degree"] > 1 or ranks["expert_parallel_degree"] > 1:
        assert training["disable_cuda_graphs"]
    if ranks["pipeline_parallel_degree"] > 1:
        names = [name for part in ranks["module_fqns_per_model_part"] for name in part]
        depth = len(names) - 3
        assert names == ["tok_embeddings", *(f"layers.{at}" for at in range(depth)), "norm", "lm_head"]
    inner = ranks["data_parallel_shard_degree"] * ranks["context_parallel_degree"] * ranks["tensor_parallel_degree"]
    assert inner % ranks["expert_parallel_degree"] == 0
    return found


def accelerate_keys(text: str) -> dict[str, Any]:
    """The keys of a file for `accelerate launch`, which refuses those that it does not have."""
    found: dict[str, Any] = YAML(typ="safe").load(text)
    assert set(found) <= set(KNOWN["accelerate"]["file"])
    assert set(found["fsdp_config"]) <= set(KNOWN["accelerate"]["fsdp_config"])
    return found


def deepspeed_settings(text: str, ranks: int) -> dict[str, Any]:
    """A file of DeepSpeed, whose batches must multiply up over the data ranks."""
    found: dict[str, Any] = json.loads(text)
    steps = found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] * ranks
    assert steps == found["train_batch_size"]
    return found


def galvatron_settings(text: str, depth: int) -> dict[str, Any]:
    """A strategy of Galvatron, with a value for each layer."""
    found: dict[str, Any] = json.loads(text)
    for name in ("tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc", "use_sp", "checkpoint"):
        found[name] = [int(each) for each in found[name].split(",")]
        assert len(found[name]) == depth
    found["pp_division"] = [int(each) for each in found["pp_division"].split(",")]
    assert len(found["pp_division"]) == found["pp_deg"] and sum(found["pp_division"]) == depth
    return found
