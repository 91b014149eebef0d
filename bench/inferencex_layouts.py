"""Gather the layouts that InferenceX ran, from the history of its configurations: `poise/catalogue/inferencex.csv`.

    git clone https://github.com/SemiAnalysisAI/InferenceX
    python bench/inferencex_layouts.py InferenceX > poise/catalogue/inferencex.csv

InferenceX (Apache-2.0) publishes results under fixed concurrency without saying how many prefill and decode workers
stood behind them, or whether tokens were drafted. Its repository says so: each row of a configuration is one layout,
valid from the day of the commit that brought it to the day of the one that took it away.
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
from poise.catalogue.assumptions import named_model
from poise.core.errors import UserError

PATHS = [f"{folder}/{vendor}-master.yaml" for folder in (".github/configs", "configs") for vendor in ("nvidia", "amd")]
FIELDS = ("engine", "model", "device", "weights", "version", "prompt", "output", "clients", "drafts", "batch")
ENGINES = {"trt": "TensorRT-LLM", "dynamo-trt": "TensorRT-LLM", "vllm": "vLLM", "dynamo-vllm": "vLLM"}
ENGINES |= dict.fromkeys(("sglang", "dynamo-sglang", "sglang-disagg", "mori-sglang"), "SGLang")
DEVICES = ("gb200", "gb300", "b200", "b300", "h100", "h200", "mi300x", "mi325x", "mi355x")
Layout = tuple[str, ...]


def main() -> None:
    """Print the table of one repository."""
    repository = Path(sys.argv[1])
    lived: dict[Layout, list[str]] = {}
    for path in PATHS:
        commits = _git(repository, "log", "--reverse", "--date=short", "--format=%h %cd", "--", path).split("\n")
        for number, line in enumerate(filter(None, commits)):
            commit, day = line.split()
            until = commits[number + 1].split()[1] if number + 1 < len(commits) and commits[number + 1] else ""
            for layout in _layouts(repository, commit, path):
                first, _ = lived.get(layout, [day, until])
                lived[layout] = [first, until]
            print(path, day, len(lived), file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow((*FIELDS, "prefill", "decode", "since", "until"))
    table.writerows((*_settled(layout, lived), *days) for layout, days in sorted(lived.items()))


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


def _layouts(repository: Path, commit: str, path: str) -> Iterator[Layout]:
    try:
        configurations = yaml.load(_git(repository, "show", f"{commit}:{path}"), yaml.CSafeLoader)
    except (subprocess.CalledProcessError, yaml.YAMLError):
        return  # taken away by this commit, or broken for a day
    for each in configurations.values():
        run = _run(*(str(each.get(name)) for name in ("framework", "model", "runner", "precision", "image")))
        if run is None:
            continue
        loads = each.get("seq-len-configs") or each.get("scenarios", {}).get("fixed-seq-len", ())
        for load in loads:
            for space in load.get("search-space", ()):
                yield (*run, str(load.get("isl")), str(load.get("osl")), *_layout(space, run[0]))


@cache
def _run(framework: str, named: str, runner: str, precision: str, image: str) -> Layout | None:
    """Engine, model, device, weights and version; nothing where the catalogue lacks one of them."""
    engine = ENGINES.get(framework)
    found = [name for name in DEVICES if runner.startswith(name)]
    if engine is None or not found:
        return None
    bare = re.sub(r"(?i)(-(0528|v\d|nvfp4|fp4))+$", "", named.rsplit("/", 1)[-1])
    try:
        model = named_model(bare)[0].name
    except UserError:
        return None
    version = re.search(r":v?(\d[^:-]*(?:-(?:rc|dev)[^:-]*)?)", image)
    return engine, model, device(found[0]).name, precision, version[1] if version else ""


def _layout(space: dict[str, Any], engine: str) -> Layout:
    clients = " ".join(map(str, space.get("conc-list", ()))) or f"{space.get('conc-start')}-{space.get('conc-end')}"
    sides = [_side(space[side]) for side in ("prefill", "decode")] if "prefill" in space else ["", _side(space)]
    batch = re.search(r"batch(\d+)", _recipe(space))
    return clients, str(_drafts(space, engine)), batch[1] if batch else "", *sides


def _recipe(space: dict[str, Any]) -> str:
    """The settings that name a recipe file: ctx1_gen5_tp8_batch32_eplb0_mtp0.yaml."""
    return str(space.get("prefill", {}).get("additional-settings", ""))


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
