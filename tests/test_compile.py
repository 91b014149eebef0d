"""What `tools/compile.py` compiles can be used by what it leaves as Python."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def compiled() -> dict[str, Path]:
    """The compiled modules by name."""
    chosen: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "compile.py"))["MODULES"]
    files = [ROOT / "poise" / folder / f"{name}.py" for folder, names in chosen.items() for name in names.split()]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}


def protocols(file: Path) -> set[str]:
    """The protocols that a module defines."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases):
                found.add(node.name)
    return found


def inherited(source: str, modules: dict[str, Path]) -> Iterator[str]:
    """The classes of a source that inherit from a compiled protocol, as `Class(Protocol)`."""
    tree = ast.parse(source)
    traits = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in modules
        for name in node.names
        if name.name in protocols(modules[node.module])
    }
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            if isinstance(base, ast.Name) and base.id in traits:
                yield f"{node.name}({base.id})"


def test_an_inherited_protocol_of_a_compiled_module_is_found() -> None:
    source = "from poise.core.estimate import Estimator\n\nclass Slow(Estimator): ...\n"
    assert list(inherited(source, compiled())) == ["Slow(Estimator)"]


def test_no_interpreted_class_inherits_from_a_compiled_protocol() -> None:
    """mypyc refuses such a class at its first object: a protocol is satisfied by having its methods."""
    modules = compiled()
    found = {
        str(file.relative_to(ROOT)): classes
        for folder in ("poise", "examples", "bench")
        for file in (ROOT / folder).rglob("*.py")
        if file not in modules.values() and (classes := list(inherited(file.read_text(encoding="utf-8"), modules)))
    }
    assert not found
