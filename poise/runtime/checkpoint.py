"""Checkpoints in the format of torch.distributed.checkpoint, each whole or absent, and a file that names the last one.

A checkpoint is a nested dictionary whose leaves are tensors: `model` and `optimizer` by the weights' names in the whole
model, `random` by rank. So stages and ranks may be others when it is read.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from poise.core.errors import UserError
from poise.report.files import replacing

LATEST = "latest.json"

State = dict[str, Any]
"""Tensors in nested dictionaries."""


class Checkpoints:
    """Checkpoints of a job in one folder, which all ranks can reach.

    `about` is what a job must have in common with a checkpoint to go on from it.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._folder = folder
        self._about = about

    def save(self, step: int, state: State, *, first: bool) -> None:
        """Save this rank's `state`; a collective, and complete on disk when it returns. The one before stays.

        What several ranks have under one name is written once. It is written beside its place and then moved there.
        first: whether this rank moves it and records completion, when all have saved.
        """
        place = self._folder / _name(step)
        beside = place.with_suffix(".part")
        if first:
            shutil.rmtree(beside, ignore_errors=True)
        dist.barrier()
        try:
            save(state, storage_writer=FileSystemWriter(beside))
        except CheckpointException as error:  # all ranks raise it, after the last one has stopped writing
            if first:
                shutil.rmtree(beside, ignore_errors=True)
            raise UserError(_unwritten(place, error)) from None
        dist.barrier()
        if not first:
            return
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
        with replacing(self._folder / LATEST) as file:
            file.write(json.dumps({"step": step, "format": "dcp", "about": self._about}).encode())
        older = sorted(each.name for each in self._folder.glob("step-*") if each.name < _name(step) and not each.suffix)
        for old in self._folder.glob("step-*"):
            if old.name not in (_name(step), *older[-1:]):
                shutil.rmtree(old, ignore_errors=True)

    def sizes(self, step: int) -> dict[str, tuple[torch.Size, torch.dtype]]:
        """Shape and type of every tensor in a checkpoint by its dotted name."""
        found = _metadata(self._folder / _name(step)).state_dict_metadata
        return {
            name: (each.size, each.properties.dtype)
            for name, each in found.items()
            if isinstance(each, TensorStorageMetadata)
        }

    def load(self, step: int, state: State) -> None:
        """Fill the tensors of `state` from a checkpoint; a collective."""
        place = self._folder / _name(step)
        try:
            load(state, storage_reader=FileSystemReader(place))
        except CheckpointException as error:
            raise UserError(_unread(place, next(iter(error.failures.values()))[0])) from None


def latest(folder: Path, about: dict[str, Any]) -> int:
    """The step of the last complete checkpoint in `folder`; UserError if there is none, or it is of another job."""
    try:
        content = json.loads((folder / LATEST).read_bytes())
        step = int(content["step"])
    except OSError:
        raise UserError(f"{folder}: holds no complete checkpoint; leave --resume out to begin anew") from None
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{folder / LATEST}: names no checkpoint; leave --resume out to begin anew") from None
    if content.get("format") != "dcp":
        raise UserError(
            f"{folder}: its checkpoint holds stages, as older versions wrote them; leave --resume out to begin anew"
        )
    if not (folder / _name(step) / ".metadata").is_file():
        raise UserError(f"{folder / _name(step)}: is not there, or not complete; leave --resume out to begin anew")
    _metadata(folder / _name(step))
    for word, value in about.items():
        other = content.get("about", {}).get(word)
        if other != value:
            raise UserError(f"{word} {value}: the checkpoint in {folder} has {other}; give that, or another --out")
    return step


def _metadata(place: Path) -> Metadata:
    """What a checkpoint says it has; UserError where that cannot be read."""
    try:
        return FileSystemReader(place).read_metadata()
    except Exception as error:  # a pickle that is cut off or changed raises anything
        raise UserError(_unread(place, error)) from None


def _unread(place: Path, cause: BaseException) -> str:
    """A file that is cut off, changed, or without a tensor that is needed."""
    return (
        f"{place}: cannot be read ({_words(cause)}); restore it, or name the checkpoint before it as step in "
        f"{place.parent / LATEST}"
    )


def _words(cause: BaseException) -> str:
    """The first sentence of an error."""
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0].partition('. ')[0].strip()}"


def _unwritten(place: Path, error: CheckpointException) -> str:
    """Why a checkpoint could not be written: a full disk shows as all kinds of errors."""
    rank, (cause, _) = next(iter(error.failures.items()))
    free = shutil.disk_usage(place.parent).free // 2**20
    return (
        f"{place}: cannot be written (rank {rank}: {_words(cause)}); {free} MiB are free there: make "
        "room, then continue with --resume from the checkpoint before"
    )


def _name(step: int) -> str:
    return f"step-{step:08d}"
