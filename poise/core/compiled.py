"""The sources of compiled code, so that it is never used for sources that have changed since.

`make compile` and the build of a wheel (`tools/compile.py`) fill in `SOURCES` in the copy that they compile; in pure
Python it stays empty.
"""

from __future__ import annotations

from typing import Final

SOURCES: Final[dict[str, int]] = {}
"""Checksums of the files that were compiled, and of those that lend them constants, by path within the package."""

CORE: Final = "compiled" if SOURCES else "interpreted"
"""Whether the core runs compiled. The figures are the same, which `tests/test_compiled.py` shows."""


def check(core: str) -> None:
    """ImportError where a source in this package's folder `core`, or next to it, is not what was compiled."""
    if not SOURCES:
        return
    from pathlib import Path
    from zlib import crc32

    for name, checksum in SOURCES.items():
        file = Path(core).parent / name
        if not file.exists() or crc32(file.read_bytes()) != checksum:
            clone = (Path(core).parents[1] / "tools" / "compile.py").exists()
            cure = "`make compile` again, or `make uncompile`" if clone else "install Poise again"
            raise ImportError(f"{file} is not what was compiled: {cure}")
