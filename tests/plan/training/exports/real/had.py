"""The trainers' own packages, kept in the user's cache, and processes in which their code reads exported files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.cached import PATIENCE, Unavailable, once, pip
from tests.cached import cache as kept
from tests.patience import PATIENCE_S

SOURCES: Final = "POISE_SOURCES"
"""The environment variable that names a folder of Git repositories, as in OWNER/NAME, to take sources from."""
LIMIT_S: Final = 300.0
HERE: Final = Path(__file__).parent

TYRO: Final = ("tyro==1.0.17", "docstring_parser==0.18.0", "typeguard==4.6.1", "spmd_types==0.2.3", "einops==0.8.2")
PACKAGES: Final = {
    "torchtitan": ("torchtitan==0.3.0", "torch_checkpointing==0.1.1", *TYRO),
    "torchtitan-needs": ("torch_checkpointing==0.1.1", *TYRO),
    "accelerate": ("accelerate==1.15.0",),
    "deepspeed": ("deepspeed==0.19.8", "hjson==3.1.0", "einops==0.8.2", "msgpack==1.2.4"),
}
"""Packages without what they depend on: the rest is in the environment of the tests, or stands in (`stubs.py`)."""

COMMITS: Final = {
    "megatron": ("NVIDIA/Megatron-LM", "d98e8a64ddf34856e74b24714e3bedb2f5a39553", ("megatron",)),
    "torchtitan-main": ("pytorch/torchtitan", "b5bcd76c66d0acb1a08b176d9639425bc55e0b2a", ("torchtitan",)),
    "galvatron": ("PKU-DAIR/Hetu-Galvatron", "cea12ffb146a220643c8f99f9cb84294755d29f8", ("galvatron",)),
}
"""Sources that no index has: repository, commit, and what of it is needed."""


@cache
def packages(name: str) -> Path:
    """A folder for PYTHONPATH with `PACKAGES[name]`; Unavailable where they cannot be had."""
    wanted = PACKAGES[name]

    def make(place: Path, until: float) -> None:
        problem = pip(["install", "--quiet", *PATIENCE, "--no-deps", "--target", place / "lib", *wanted], until)
        if problem:
            raise Unavailable(f"{wanted[0]} cannot be installed: {problem}")

    return once(kept() / f"trainer-{wanted[0].replace('==', '-')}-alone", wanted[0], make, LIMIT_S) / "lib"


@cache
def sources(name: str) -> Path:
    """A folder for PYTHONPATH with `COMMITS[name]`; Unavailable where they cannot be had."""
    repository, commit, wanted = COMMITS[name]

    def make(place: Path, _: float) -> None:
        with tarfile.open(fileobj=io.BytesIO(_archive(repository, commit, wanted))) as archive:
            archive.extractall(place / "lib", filter=lambda member, path: _wanted(member, path, wanted))

    return once(kept() / f"trainer-{repository.split('/')[1]}-{commit[:7]}", repository, make, LIMIT_S) / "lib"


def _archive(repository: str, commit: str, wanted: Sequence[str]) -> bytes:
    """The files of a commit as a tar, from a local copy of the repository or from GitHub."""
    local = os.environ.get(SOURCES)
    if local:
        command = ["git", "-C", f"{local}/{repository}", "archive", commit, *wanted]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise Unavailable(f"{repository} is not in {SOURCES}: {done.stderr.decode().strip()}")
        return done.stdout
    try:
        with urllib.request.urlopen(f"https://codeload.github.com/{repository}/tar.gz/{commit}", timeout=60) as answer:
            return bytes(answer.read())
    except OSError as error:
        raise Unavailable(
            f"{repository} cannot be fetched ({error}); set {SOURCES} to a folder of repositories"
        ) from None


def _wanted(member: tarfile.TarInfo, path: str, wanted: Sequence[str]) -> tarfile.TarInfo | None:
    """The member below the archive's own folder, if any, where it is wanted."""
    first, _, rest = member.name.partition("/")
    name = member.name if first in wanted else rest
    if name.split("/")[0] not in wanted or not (member.isfile() or member.isdir()):
        return None
    return tarfile.data_filter(member.replace(name=name, deep=False), path)


def ask(probe: str, cases: Sequence[Any], *paths: Path) -> list[dict[str, Any]]:
    """What a probe finds for each case, with packages at `paths`."""
    done = subprocess.run(
        [sys.executable, HERE / f"{probe}_probe.py"], input=json.dumps(cases), capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}, timeout=10 * PATIENCE_S, check=False,
    )  # fmt: skip
    answers = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert answers, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(answers[-1][6:])
    return found
