"""The systems by name: each is the file of that name in `systems/`."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from poise.claims import systems
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Findings
from poise.core.errors import UserError
from poise.core.spec import Engine

_ROOT = Path(__file__).parents[1]
_COUNTED = ("poise.claims.", "poise.policies.")

MODELS = ("cost", "workload")
"""What stands in place of a slot where a system is no policy but a model: the room that has its files."""


def names() -> list[str]:
    """The systems there are, by name."""
    return sorted(module.name for module in pkgutil.iter_modules(systems.__path__))


def claim(name: str) -> Claim:
    """What is claimed of a system; UserError with the nearest names if there is none of this name."""
    found: Claim = _module(name).CLAIM
    return found


def measure(name: str, bench: Bench) -> Findings:
    """Run the experiment of a system."""
    found: Findings = _module(name).measure(bench)
    return found


def digest(name: str) -> str:
    """A fingerprint of the code that a result depends on."""
    return fingerprint(files(name), _ROOT)


def files(name: str) -> set[Path]:
    """The claim's file and those of its policies, with what they import of claims and policies."""
    about = claim(name)
    own = _ROOT / "claims" / "systems" / f"{name}.py"
    return _closure([own, *(file_of(each, about.slot) for each in about.policies), *map(policy_file, about.others)])


def fingerprint(some: Iterable[Path], root: Path) -> str:
    """16 hexadecimal digits over names (below `root`) and contents of files, and the version of the engine model."""
    told = sha256(f"{Engine().name} {Engine().version}".encode())
    for file in sorted(some):
        told.update(file.relative_to(root).as_posix().encode() + b"\0")
        told.update(file.read_bytes() + b"\0")
    return told.hexdigest()[:16]


def _module(name: str) -> ModuleType:
    if name not in names():
        near = get_close_matches(name, names(), 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names())}"
        raise UserError(f"{name!r} is no system; {hint}")
    return importlib.import_module(f"{systems.__name__}.{name}")


def file_of(name: str, slot: str) -> Path:
    """The file of what stands for a system: a policy's, or that of a model in one of the rooms in `MODELS`."""
    return _ROOT / slot / f"{name}.py" if slot in MODELS else policy_file(name)


def policy_file(name: str) -> Path:
    """The file of a policy, in the folder of whichever slot it fills; `folder/name` where several have one."""
    (found,) = (_ROOT / "policies").glob(f"{name}.py" if "/" in name else f"*/{name}.py")
    return found


def _closure(some: Sequence[Path]) -> set[Path]:
    """Some files, and those of claims and policies that they import."""
    known: set[Path] = set()
    left = list(some)
    while left:
        file = left.pop()
        if file not in known:
            known.add(file)
            left += _imported(file)
    return known


@cache
def _imported(file: Path) -> list[Path]:
    """What of claims and policies a file imports; read once, as most systems share files."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    found = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return [_ROOT.parent.joinpath(*name.split(".")).with_suffix(".py") for name in found if name.startswith(_COUNTED)]
