"""Read what Megatron-Bridge's performance recipes state of software (`poise/validation/training/recipes.json`).

    python bench/recipes.py REPOSITORY [--out FILE]

REPOSITORY is a clone of NVIDIA-NeMo/Megatron-Bridge with its tags. Its tables of measured steps name a release, a
model, a device and a precision, and leave out what the release's recipe states: what is recomputed, how experts
exchange tokens, whether exchanges overlap, and what CUDA graphs capture. The recipes are read as text, not run.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "poise" / "validation" / "training" / "recipes.json"
RELEASES = {
    "25.11": "v0.2.0", "26.02": "v0.3.0", "26.02.01": "v0.3.1", "26.04": "v0.4.0", "26.04.01": "v0.4.1",
    "26.06": "v0.5.0", "26.06.01": "v0.5.1",
}  # fmt: skip
"""Tags by the container that has them; from v0.6.0 on recipes are programs."""
FOLDER = "scripts/performance/configs"
PRECISIONS = {"BF16": "bf16", "FP8_CS": "fp8", "FP8_MX": "mxfp8", "FP8_SC": "fp8_block", "NVFP4": "nvfp4"}
NAME = re.compile(
    r"(?P<model>[A-Z0-9_]+?)_(?:PRETRAIN_CONFIG_)?(?P<device>[A-Z]+\d+)_(?P<precision>" + "|".join(PRECISIONS)
    + r")(?:_BASE_CONFIG|_V\d)$"
)  # fmt: skip
MODELS = {
    "QWEN3_235B_A22B": "Qwen3-235B-A22B", "QWEN3_30B_A3B": "Qwen3-30B-A3B", "DEEPSEEK_V3": "DeepSeek-V3",
    "GPT_OSS_120B": "gpt-oss-120b", "NEMOTRON_3_NANO": "Nemotron 3 Nano",
}  # fmt: skip
"""Mixtures of experts, whose steps depend most on what tables leave out."""
Fields = dict[str, Any]


def git(repository: Path, *words: str) -> str:
    """What a git command prints."""
    return subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True, text=True).stdout


def assigned(text: str) -> dict[str, Fields]:
    """Fields of every name that a file assigns a base configuration, or a copy of one with changes."""
    found: dict[str, Fields] = {}
    for node in ast.parse(text).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        value, name = node.value, node.targets[0].id
        if isinstance(value, ast.Name) and value.id in found:
            found[name] = found[value.id]
        elif isinstance(value, ast.Call):
            begin = value.args[0].id if value.args and isinstance(value.args[0], ast.Name) else ""
            own = {each.arg: _literal(each.value) for each in value.keywords if each.arg}
            found[name] = {**found.get(begin, {}), **own}
    return found


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def facts(fields: Fields) -> Fields:
    """What a configuration states of software."""
    graphs = fields.get("cuda_graph_scope") or []
    how = fields.get("cuda_graph_impl")
    whole = how == "full_iteration" or "full_iteration" in graphs or how == "local"
    return {
        "recompute": fields.get("recompute_modules") or [],
        "dispatcher": fields.get("moe_flex_dispatcher_backend") or "alltoall",
        "overlap": bool(fields.get("moe_a2a_overlap")),
        "graphs": "iteration" if whole else "parts" if how == "transformer_engine" and graphs else "none",
    }


def recipes(repository: Path) -> list[list[Any]]:
    """Release, model, device, precision and facts, where they differ from the release before."""
    found: list[list[Any]] = []
    last: dict[tuple[str, str, str], Fields] = {}
    for release, tag in RELEASES.items():
        paths = git(repository, "ls-tree", "-r", "--name-only", tag, FOLDER).split()
        for path in (each for each in paths if each.endswith("workload_base_configs.py")):
            own: dict[tuple[str, str, str], Fields] = {}
            for name, fields in assigned(git(repository, "show", f"{tag}:{path}")).items():
                parts = NAME.match(name)
                if parts and parts["model"] in MODELS:  # later variants are those of the tables
                    key = MODELS[parts["model"]], parts["device"], PRECISIONS[parts["precision"]]
                    own[key] = facts(fields)
            for key, each in own.items():
                if last.get(key) != each:
                    found.append([release, *key, each])
                    last[key] = each
    return found


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repository", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    wish = parser.parse_args()
    rows = ",\n".join("  " + json.dumps(each) for each in recipes(wish.repository))
    head = (
        '"source": "github:NVIDIA-NeMo/Megatron-Bridge, '
        + f'{FOLDER}, tags {", ".join(RELEASES.values())}; Apache-2.0"'
    )
    wish.out.write_text("{\n " + head + ',\n "recipes": [\n' + rows + "\n ]\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
