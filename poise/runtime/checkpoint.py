"""Checkpoints: a file for each stage, each whole or absent, and one that names the last complete set."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from poise.core.errors import UserError
from poise.report.files import replacing

LATEST = "latest.json"


class Checkpoints:
    """Checkpoints of a job in one folder, which all ranks can reach.

    `about` is what a job must have in common with a checkpoint to go on from it.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._folder = folder
        self._about = about

    def save(self, step: int, parts: dict[str, Any], *, first: bool) -> None:
        """Save this rank's `parts` by name; a collective, and complete on disk when it returns. The one before stays.

        first: whether this rank records completion, when all have saved.
        """
        folder = self._folder / _name(step)
        for name, part in parts.items():
            content = io.BytesIO()
            torch.save(part, content)
            with replacing(folder / f"{name}.pt") as file:
                file.write(content.getbuffer())
        dist.barrier()
        if first:
            with replacing(self._folder / LATEST) as file:
                file.write(json.dumps({"step": step, "about": self._about}).encode())
            older = sorted(each.name for each in self._folder.glob("step-*") if each.name < _name(step))
            for old in self._folder.glob("step-*"):
                if old.name not in (_name(step), *older[-1:]):
                    shutil.rmtree(old, ignore_errors=True)

    def load(self, step: int, name: str) -> Any:
        """A part of a checkpoint."""
        return torch.load(self._folder / _name(step) / f"{name}.pt", weights_only=True)


def latest(folder: Path, about: dict[str, Any]) -> int:
    """The step of the last complete checkpoint in `folder`; UserError if there is none, or it is of another job."""
    try:
        content = json.loads((folder / LATEST).read_bytes())
    except OSError:
        raise UserError(f"{folder}: holds no complete checkpoint; leave --resume out to begin anew") from None
    except ValueError:
        raise UserError(f"{folder / LATEST}: no JSON; leave --resume out to begin anew") from None
    for word, value in about.items():
        other = content.get("about", {}).get(word)
        if other != value:
            raise UserError(f"{word} {value}: the checkpoint in {folder} has {other}; give that, or another --out")
    step: int = content["step"]
    return step


def _name(step: int) -> str:
    return f"step-{step:08d}"
