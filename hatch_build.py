"""Hatch's build hook: `pip install .` and `pip wheel .` compile the core where a C compiler is.

The environment variable POISE_COMPILE decides: `auto` (default) compiles where it can and says in one line why not,
`1` fails where it cannot, `0` leaves Python alone. An editable install is never compiled: `make compile` does that.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHOICES = ("auto", "0", "1")


class CompiledCore(BuildHookInterface[Any]):
    """Adds to a wheel the objects that `tools/compile.py --into` makes, and the tag of the platform."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What an isolated build installs beside hatchling: the compiler of Python, where it will be used."""
        return [] if self._obstacle() else list(self._tool["BUILD"])

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are gathered. version: `standard`, or `editable`, which stays as it is."""
        if version == "editable":
            return
        obstacle = self._obstacle() or self._tool["lacking_packages"]()
        if not obstacle:
            obstacle = self._compile(build_data)
        if obstacle and self._wish == "1":
            raise RuntimeError(f"POISE_COMPILE=1: {obstacle}")
        if obstacle:
            self.app.display_warning(f"poise: pure Python, not compiled: {obstacle}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the objects, which are in the wheel now."""
        self._folder.cleanup()

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="poise-core-")

    @cached_property
    def _tool(self) -> dict[str, Any]:
        """The names of tools/compile.py."""
        return runpy.run_path(str(Path(self.root, "tools", "compile.py")))

    @property
    def _wish(self) -> str:
        wish = os.environ.get("POISE_COMPILE") or "auto"
        if wish not in CHOICES:
            raise ValueError(f"POISE_COMPILE={wish}: must be one of {', '.join(CHOICES)}")
        return wish

    def _obstacle(self) -> str:
        """Why this wheel cannot or shall not be compiled, before its build environment is made; empty if it can."""
        if self._wish == "0":
            return "POISE_COMPILE=0"
        if sys.platform == "win32" and self._wish == "auto":
            return "on Windows only with POISE_COMPILE=1"
        return str(self._tool["lacking_compiler"]())

    def _compile(self, build_data: dict[str, Any]) -> str:
        """Compile, and add the objects to the wheel; returns what went wrong, if anything did."""
        began = time.monotonic()
        tool = Path(self.root, "tools", "compile.py")
        done = subprocess.run(
            [sys.executable, str(tool), "--into", self._folder.name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.app.display_debug(done.stdout + done.stderr)
            return f"tools/compile.py failed: {' '.join((done.stderr or done.stdout).split())[-300:]}"
        made = Path(self._folder.name, "poise")
        objects = self._tool["objects"](made)
        build_data["force_include"].update(
            {str(file): f"poise/{file.relative_to(made).as_posix()}" for file in objects}
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        self.app.display_info(f"poise: {len(objects)} modules compiled in {time.monotonic() - began:.0f} s")
        return ""
