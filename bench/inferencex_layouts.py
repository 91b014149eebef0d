"""Gather the layouts that InferenceX ran, from the history of its configurations: `poise/validation/inferencex.csv`.

    git clone https://github.com/SemiAnalysisAI/InferenceX
    git clone https://github.com/NVIDIA/srt-slurm
    python bench/inferencex_layouts.py InferenceX srt-slurm > poise/validation/inferencex.csv

InferenceX (Apache-2.0) publishes results under fixed concurrency without saying how many prefill and decode workers
stood behind them, or whether tokens were drafted. Its repository says so: each row of a configuration is one layout,
valid from the day of the commit that brought it to the day of the one that took it away. Most that prefill and decode
workers admit stands in the recipe that a configuration names; those for SGLang are kept by srt-slurm (Apache-2.0). What
is run on a day is the configurations that changed: their days are kept too.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from poise.catalogue import device
from poise.core.errors import UserError
from poise.validation.assumptions import named_model

PATHS = [f"{folder}/{vendor}-master.yaml" for folder in (".github/configs", "configs") for vendor in ("nvidia", "amd")]
FIELDS = ("engine", "model", "device", "weights", "version", "prompt", "output", "clients", "drafts", "batch")
ADMITS = ("prefill_batch", "prefill_tokens")
ENGINES = {"trt": "TensorRT-LLM", "dynamo-trt": "TensorRT-LLM", "vllm": "vLLM", "dynamo-vllm": "vLLM"}
ENGINES |= dict.fromkeys(("sglang", "dynamo-sglang", "sglang-disagg", "mori-sglang"), "SGLang")
DEVICES = ("gb200", "gb300", "b200", "b300", "h100", "h200", "mi300x", "mi325x", "mi355x")
Layout = tuple[str, ...]


def main() -> None:
    """Print the table of one repository and of its recipes."""
    repository, recipes = Path(sys.argv[1]), Path(sys.argv[2])
    lived: dict[Layout, list[str]] = {}
    ran: dict[Layout, set[str]] = {}
    for path in PATHS:
        before: dict[str, Any] = {}
        commits = _git(repository, "log", "--reverse", "--date=short", "--format=%h %cd", "--", path).split("\n")
        for number, line in enumerate(filter(None, commits)):
            commit, day = line.split()
            until = commits[number + 1].split()[1] if number + 1 < len(commits) and commits[number + 1] else ""
            now = _configurations(repository, commit, path)
            for name, each in now.items():
                for layout in _layouts(each, recipes, day):
                    first, _ = lived.get(layout, [day, until])
                    lived[layout] = [first, until]
                    ran.setdefault(layout, set()).update([day] if each != before.get(name) else [])
            before = now or before
            print(path, day, len(lived), file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow((*FIELDS, *ADMITS, "prefill", "decode", "since", "until", "runs"))
    table.writerows(
        (*_settled(layout, lived), *days, " ".join(sorted(ran[layout]))) for layout, days in sorted(lived.items())
    )


def _settled(layout: Layout, lived: dict[Layout, list[str]]) -> Layout:
    """The same with the degrees of a later day, where a configuration of several nodes had left them at one."""
    if "xtp1ep1" not in "".join(layout[-2:]) or not layout[-2]:
        return layout
    for other in sorted(lived, key=lambda each: lived[each][0]):
        same = (*layout[:4], *layout[5:8]) == (*other[:4], *other[5:8]) and _workers(layout) == _workers(other)
        if same and "xtp1ep1" not in "".join(other[-2:]) and lived[other][0] > lived[layout][0]:
            return (*layout[:-2], *other[-2:])
    return layout


def _workers(layout: Layout) -> list[str]:
    return [side.partition("x")[0] for side in layout[-2:]]


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", repository, *words], check=True, capture_output=True, text=True).stdout


def _configurations(repository: Path, commit: str, path: str) -> dict[str, Any]:
    try:
        return dict(yaml.load(_git(repository, "show", f"{commit}:{path}"), yaml.CSafeLoader))
    except (subprocess.CalledProcessError, yaml.YAMLError):
        return {}  # taken away by this commit, or broken for a day


def _layouts(each: dict[str, Any], recipes: Path, day: str) -> Iterator[Layout]:
    """The layouts of one configuration."""
    run = _run(*(str(each.get(name)) for name in ("framework", "model", "runner", "precision", "image")))
    if run is None:
        return
    for load in each.get("seq-len-configs") or each.get("scenarios", {}).get("fixed-seq-len", ()):
        for space in load.get("search-space", ()):
            found = _layout(space, run[0])
            limits = _limits(recipes, _recipe(space), day) if run[0] == "SGLang" else None
            if limits is not None:
                found = (*found[:2], *limits, *found[5:])
            yield (*run, str(load.get("isl")), str(load.get("osl")), *found)


@cache
def _run(framework: str, named: str, runner: str, precision: str, image: str) -> Layout | None:
    """Engine, model, device, weights and version; nothing where the catalogue lacks one of them."""
    engine = ENGINES.get(framework)
    found = [name for name in DEVICES if runner.startswith(name)]
    if engine is None or not found:
        return None
    bare = re.sub(r"(?i)(-(0528|v\d|nvfp4|fp4))+$", "", named.rsplit("/", 1)[-1])
    try:
        model = named_model(bare).name
    except UserError:
        return None
    version = re.search(r":v?(\d[^:-]*(?:-(?:rc|dev)[^:-]*)?)", image)
    return engine, model, device(found[0]).name, precision, version[1] if version else ""


def _layout(space: dict[str, Any], engine: str) -> Layout:
    clients = " ".join(map(str, space.get("conc-list", ()))) or f"{space.get('conc-start')}-{space.get('conc-end')}"
    sides = [_side(space[side]) for side in ("prefill", "decode")] if "prefill" in space else ["", _side(space)]
    batch = re.search(r"batch(\d+)", _recipe(space))
    return clients, str(_drafts(space, engine)), batch[1] if batch else "", "", "", *sides


def _recipe(space: dict[str, Any]) -> str:
    """The settings that name a recipe file: ctx1_gen5_tp8_batch32_eplb0_mtp0.yaml."""
    return str(space.get("prefill", {}).get("additional-settings", ""))


def _limits(repository: Path, settings: str, day: str) -> Layout | None:
    """Most requests of a decode worker, and most requests and tokens of a prefill worker, from the recipe of that day
    or else its first; of each rank where ranks have requests of their own. Nothing where there is no such recipe."""
    named = re.search(r"CONFIG_FILE=([^:'\"]*\.yaml)(?::(\w+)(?:\[(\d+)\])?)?", settings)
    kept = _recipes(repository, named[1]) if named else []
    if named is None or not kept:
        return None
    recipe = ([each for since, each in kept if since <= day] or [kept[0][1]])[-1]
    if "base" in recipe:
        recipe = _merged(recipe["base"], recipe.get(named[2] or "", {}), int(named[3] or 0))
    sides = recipe["backend"].get("sglang_config", {})
    return (_most(sides["decode"])[0], *_most(sides["prefill"])) if set(sides) >= {"prefill", "decode"} else None


@cache
def _recipes(repository: Path, path: str) -> list[tuple[str, dict[str, Any]]]:
    """All versions of a recipe, each with its day."""
    found = []
    for line in _git(repository, "log", "--reverse", "--date=short", "--format=%h %cd", "--", path).split("\n"):
        commit, _, day = line.partition(" ")
        try:
            recipe = yaml.load(_git(repository, "show", f"{commit}:{path}"), yaml.CSafeLoader)
        except (subprocess.CalledProcessError, yaml.YAMLError):
            continue  # taken away by this commit, or broken for a day
        if isinstance(recipe, dict) and "backend" in recipe.get("base", recipe):
            found.append((day, recipe))
    return found


def _merged(base: Any, over: Any, place: int) -> Any:
    """A recipe under one of its variants, each of whose lists has an element for every variant."""
    if isinstance(over, dict):
        kept = base if isinstance(base, dict) else {}
        return {
            name: _merged(kept.get(name), over[name], place) if name in over else kept[name] for name in kept | over
        }
    return over[place] if isinstance(over, list) else over


def _most(side: dict[str, Any]) -> tuple[str, str]:
    """Requests and prompt tokens of SGLang at once, of each data rank: `chunked_prefill_size` and
    `max_running_requests` are divided among them, `max_prefill_tokens` is not (`server_args.py`, `scheduler.py`)."""
    ranks = int(side.get("data-parallel-size", side.get("dp-size", 1))) if side.get("enable-dp-attention") else 1
    requests, chunk = int(side.get("max-running-requests", 0)), int(side.get("chunked-prefill-size", 0))
    tokens = min((each for each in (chunk // ranks, int(side.get("max-prefill-tokens", 0))) if each > 0), default=0)
    return (str(max(1, requests // ranks)) if requests else ""), (str(tokens) if tokens else "")


def _drafts(space: dict[str, Any], engine: str) -> int:
    """Drafts a step: a recipe's name says it, else the scripts' own (`*_mtp.sh`): 3, or 1 under attention data
    parallelism, with TensorRT-LLM, 2 with SGLang and vLLM."""
    if space.get("spec-decoding", "none") in ("none", None):
        return 0
    named = re.search(r"mtp(\d)", _recipe(space))
    if named:
        return int(named[1])
    shared = str(space.get("decode", space).get("dp-attn", "false")).lower() == "true"
    return (1 if shared else 3) if engine == "TensorRT-LLM" else 2


def _side(side: dict[str, Any]) -> str:
    """Workers x tensor degree, experts', and whether attention is data parallel: 4xtp8ep8dp."""
    dp = "dp" if str(side.get("dp-attn", "false")).lower() == "true" else ""
    return f"{side.get('num-worker', 1)}xtp{side.get('tp', 1)}ep{side.get('ep', 1)}{dp}"


if __name__ == "__main__":
    main()
