"""Tables of a folder of measurements that no reader takes."""

from __future__ import annotations

from pathlib import Path

from poise.recordings.profiles.read import LAYOUTS
from poise.validation.peer import FILE as PEERS
from poise.validation.replay import SOURCE
from poise.validation.stage import FILE as STAGES
from poise.validation.training.layouts import FILE as TRAINED
from poise.validation.training.table import tables
from poise.validation.training.vtrain import FILES

KINDS = ("*.csv", "*.csv.gz", "*.parquet")
SERVED = ("fidelity/serving_e2e.csv", "serving_e2e.csv")
NAMED = 3
"""Tables that one line names."""


def unread(folder: Path) -> list[str]:
    """Tables below `folder` that are not read, as paths within it, in order."""
    found = {path for kind in KINDS for path in folder.rglob(kind)}
    single = [*map(Path, SERVED), PEERS, STAGES, TRAINED, *FILES.values()]
    taken = {folder / name for name in single} | set(tables(folder))
    taken |= {path for path in found if path.is_relative_to(folder / SOURCE)}
    taken |= {path for name in LAYOUTS for path in (folder / name).rglob("*.parquet")}
    return sorted(path.relative_to(folder).as_posix() for path in found - taken)


def in_words(names: list[str]) -> str:
    """One line that counts tables and names the first; empty without any."""
    if not names:
        return ""
    more = ", …" if len(names) > NAMED else ""
    return f"Not read: {len(names):,} table{'s' * (len(names) > 1)} ({', '.join(names[:NAMED])}{more})."
