"""Writes the trainers' options that short tests check against: `python -m tests.plan.training.exports.real.record`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.plan.training import exports
from tests.plan.training.exports.real.had import COMMITS, PACKAGES, ask, packages, sources

FILE = Path(__file__).parent.parent / "known.json"


def known() -> dict[str, dict[str, Any]]:
    """The options by trainer, with the version that has them; Unavailable where a trainer cannot be had."""
    alone = packages("torchtitan-needs")
    source = "".join(file.read_text() for file in Path(exports.__file__).parent.glob("megatron*.py"))
    options = ask("options", ["megatron"], sources("megatron"))[0]
    used = {name: value for name, value in options.items() if f'"{name}"' in source}
    return {
        "megatron": {"of": _commit("megatron"), **used},
        "torchtitan": {"of": PACKAGES["torchtitan"][0], **ask("options", ["torchtitan"], packages("torchtitan"))[0]},
        "torchtitan-main": {
            "of": _commit("torchtitan-main"), **ask("options", ["torchtitan"], sources("torchtitan-main"), alone)[0],
        },
        "accelerate": {"of": PACKAGES["accelerate"][0], **ask("options", ["accelerate"], packages("accelerate"))[0]},
    }  # fmt: skip


def _commit(name: str) -> str:
    repository, commit, _ = COMMITS[name]
    return f"{repository} {commit[:7]}"


def text(found: dict[str, dict[str, Any]]) -> str:
    """A line for each option."""
    parts = []
    for trainer, options in found.items():
        rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in options.items())
        parts.append(f"  {json.dumps(trainer)}: {{\n{rows}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(known()))
