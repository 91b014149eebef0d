"""The systems by name: each is the claim of that name in `systems/`, a TOML file, beside it what only it measures."""

from __future__ import annotations

import ast
import importlib
import json
import tokenize
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from io import StringIO
from pathlib import Path
from types import ModuleType

from poise.claims.answer import Findings
from poise.claims.bench import Bench
from poise.claims.claim import Claim
from poise.core.errors import UserError
from poise.core.plugin import nearest
from poise.core.spec import Engine

FOLDER = Path(__file__).parent / "systems"
_ROOT = Path(__file__).parents[1]
_FORM = Path(__file__).parent / "claim.py"
"""What a file of `systems/` may hold: no result depends on it, as what a claim holds is in its digest."""
_POINTS = Path(__file__).parent / "experiments" / "points.py"
_COUNTED = ("poise.claims.", "poise.policies.", "poise.pipeline.schedules.", "poise.experts.routers.")
_TRIED = ("setting", "compare", "settings", "sweeps", "capacities", "runs", "points", "let", "shown", "seeds", "data")
"""What of a claim is the experiment; all else is prose and tests, which may change without a new run."""

MODELS = {
    "cost": "cost", "workload": "workload", "planner": "plan/training", "export": "plan/training/exports",
    "schedule": "pipeline/schedules", "pass": "program/passes", "sharding": "sharding",
    "learning rate": "runtime/learning_rates", "expert router": "experts/routers",
}  # fmt: skip
"""What stands in place of a slot where a system is not a policy, and the folder that has its files."""


@cache
def names() -> tuple[str, ...]:
    """The systems that have a claim, by name."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


@cache
def claim(name: str) -> Claim:
    """What is claimed of a system; UserError with the nearest names if there is none of this name."""
    if name not in names():
        raise UserError(f"{name!r} is no system with a claim; {nearest(name, names())}")
    return read_claim(FOLDER / f"{name}.toml")


def read_claim(file: Path) -> Claim:
    """The claim in a file; UserError of one line with file, field, value, rule and cure."""
    from pydantic import ValidationError

    from poise.scenario.explain import first_mistake
    from poise.scenario.place import Places

    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file.name}: is no TOML: {error}; check quotes, brackets and commas there") from None
    try:
        return Claim.model_validate(data)
    except ValidationError as error:
        raise first_mistake(error.errors(include_url=False), Places(file.name), Claim) from None


def measure(name: str, bench: Bench) -> Findings:
    """Run the experiment of a system: its sweeps and searches, and what only it measures."""
    about = claim(name)
    found = [_shared(each).measure(about, bench) for each in _named(about)]
    if _own(name).is_file():
        found.append(importlib.import_module(f"poise.claims.systems.{name}").measure(bench))
    return Findings(
        [answer for each in found for answer in each.answers], [curve for each in found for curve in each.curves]
    )


def _named(about: Claim) -> list[str]:
    """The modules of the shared experiments that a claim names."""
    formulas = bool(about.shown) or any(each.test and each.test.value for each in about.criteria.values())
    kinds = (("sweep", about.sweeps), ("capacity", about.capacities), ("runs", formulas))
    return [name for name, there in kinds if there]


def _shared(name: str) -> ModuleType:
    return importlib.import_module(f"poise.claims.experiments.{name}")


def _own(name: str) -> Path:
    """The file with what only this system measures; many have none."""
    return FOLDER / f"{name}.py"


def digest(name: str) -> str:
    """A fingerprint of the code that a result depends on, and of the experiment as the claim has it."""
    tried = claim(name).model_dump(mode="json", include=set(_TRIED), exclude_defaults=True)
    tests = {
        key: each.test.model_dump(include=set(_MEASURED), exclude_defaults=True)
        for key, each in claim(name).criteria.items()
        if each.test
    }
    return fingerprint(files(name), _ROOT, json.dumps([tried, tests], sort_keys=True))


_MEASURED = (
    *("sweep", "figure", "capacity", "order", "ahead", "of", "times", "peak", "rise", "growth", "last", "over"),
    *("value", "shows"),
)
"""What of a test says what is measured, and not where it must lie."""


def files(name: str) -> set[Path]:
    """The files of what only it measures, of the experiments it names and of its policies, with what these import of
    claims, policies and schedules."""
    about = claim(name)
    own = [_own(name)] if _own(name).is_file() else []
    shared = [_ROOT / "claims" / "experiments" / f"{each}.py" for each in _named(about)]
    stands = [file_of(each, about.slot) for each in about.policies]
    called = [_called(each.call) for each in about.points.values()]
    beside = [compared_file(each, about.slot) for each in about.others]
    tables = [_POINTS] if about.points else []
    return _closure([*own, *shared, *stands, *called, *beside, *tables])


def _called(call: str) -> Path:
    """The file of a function by its import path."""
    return _ROOT.parent.joinpath(*call.split(".")[:-1]).with_suffix(".py")


def fingerprint(some: Iterable[Path], root: Path, more: str = "") -> str:
    """16 hexadecimal digits over names (below `root`) and code of files, `more`, and the engine model's version."""
    hashed = sha256(f"{Engine().name} {Engine().version}{more}".encode())
    for file in sorted(some):
        hashed.update(file.relative_to(root).as_posix().encode() + b"\0")
        hashed.update(code(file.read_text(encoding="utf-8")).encode() + b"\0")
    return hashed.hexdigest()[:16]


@cache
def code(source: str) -> str:
    """Python source without docstrings, comments and empty lines: words that change make no result stale."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(StringIO(source).readline) if "#" in source else ():
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)  # type: ignore[operator]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def file_of(name: str, slot: str) -> Path:
    """The file of what stands for a system: a policy's, or that of a model in one of the folders in `MODELS`."""
    return _ROOT / MODELS[slot] / f"{name}.py" if slot in MODELS else policy_file(name)


def compared_file(name: str, slot: str) -> Path:
    """The file of what a system is compared with: another of the same folder, or a policy."""
    own = file_of(name, slot) if slot in MODELS else None
    return own if own and own.is_file() else policy_file(name)


def policy_file(name: str) -> Path:
    """The file of a policy, in the folder of whichever slot it fills; `folder/name` where several have one."""
    (found,) = (_ROOT / "policies").glob(f"{name}.py" if "/" in name else f"*/{name}.py")
    return found


def _closure(some: Sequence[Path]) -> set[Path]:
    """Some files, and those of claims, policies and schedules that they import, but for the form that claims have and
    for tables, which count for claims that have some."""
    known: set[Path] = set()
    left = list(some)
    while left:
        file = left.pop()
        if file not in known:
            known.add(file)
            left += [each for each in _imported(file) if each not in (_FORM, _POINTS)]
    return known


@cache
def _imported(file: Path) -> list[Path]:
    """What of claims, policies and schedules a file imports; read once, as most systems share files."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    found = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return [_ROOT.parent.joinpath(*name.split(".")).with_suffix(".py") for name in found if name.startswith(_COUNTED)]
