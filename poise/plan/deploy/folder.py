"""The output folder of a plan: all its files are made first, then each is written whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from poise.core.errors import UserError
from poise.plan.deploy import sglang, vllm
from poise.plan.deploy.gateway import gateway
from poise.plan.deploy.kubernetes import kubernetes, llm_d
from poise.plan.deploy.scenario import scenario
from poise.plan.deploy.script import one_line
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet
from poise.report.files import replacing

FILES: dict[str, Callable[[Fleet, Setting], str]] = {
    "vllm.sh": vllm.commands,
    "sglang.sh": sglang.commands,
    "gateway.yaml": gateway,
    "kubernetes.yaml": kubernetes,
    "llm-d.yaml": llm_d,
    "scenario.yaml": scenario,
}
"""The file names, and the function that makes each."""


def write_deployment(fleet: Fleet, setting: Setting, folder: str | Path) -> list[Path]:
    """Write the files of a plan into `folder` and return them; UserError where the folder cannot be written.

    A file that cannot be made for this plan (`refused`) says why and does nothing else, so that none
    of an earlier plan stays behind.
    """
    files = {Path(folder) / name: text for name, text in texts(fleet, setting).items()}
    for path, text in files.items():
        with replacing(path) as file:
            file.write(text.encode())
    return list(files)


def texts(fleet: Fleet, setting: Setting) -> dict[str, str]:
    """Every file by its name."""
    made, _ = _made(fleet, setting)
    return made


def refused(fleet: Fleet, setting: Setting) -> dict[str, str]:
    """Why some of the files cannot be made, by their names; empty where all can."""
    _, why = _made(fleet, setting)
    return why


def _made(fleet: Fleet, setting: Setting) -> tuple[dict[str, str], dict[str, str]]:
    made: dict[str, str] = {}
    why: dict[str, str] = {}
    for name, make in FILES.items():
        try:
            made[name] = make(fleet, setting)
        except UserError as error:
            why[name] = one_line(str(error))
            made[name] = _apology(name, why[name])
    return made, why


def _apology(name: str, why: str) -> str:
    if not name.endswith(".sh"):
        return f"# This plan has no {name}: {why}\n"
    return f"#!/usr/bin/env bash\ncat >&2 <<'END'\nThis plan has no {name}: {why}\nEND\nexit 2\n"
