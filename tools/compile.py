"""Compile the hot core, for about twice the speed, and the gateway's data path with mypyc.

`make compile` and `make uncompile` call this:

    python tools/compile.py             shared objects beside their sources, where Python prefers them
    python tools/compile.py --remove    take them away: pure Python again
    python tools/compile.py --into DIR  a compiled copy of the package in DIR, an empty folder
    python tools/compile.py -O 3        the same with more time for the C compiler

Needs mypy, setuptools (both in requirements-test.txt) and a C compiler. The sources are compiled as they stand and
remain the reference; policies are left as they are, since anybody may write and subclass them. `hatch_build.py` calls
this for wheels.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

PACKAGE = Path(__file__).resolve().parent.parent / "poise"

LIVE = {
    "live": "clock",
    "live/admin": "decisions",
    "live/gateway": "api counts fleet proxied_request usage world",
    "live/peers": "translation",
    "live/http": "again bodies call connection exchange header pool reply reply_memory request shared_head sweep"
    " upstream",
    "live/requests": "names openai_request prompt_text tenants text_prefix",
}
"""The path of a request through the gateway."""

MODULES = {
    "core": "action chance compiled estimate event fast_tuple request units",
    "core/control": "control flight gateway_queue in_flight peers prefix_index state",
    "core/engine": "decode_group extents hold kv_budget kv_loans kv_pool kv_transfer lane outcome pins plain preemption"
    " ranked_pool replica runs swapping",
    "core/records": "attribution attributions blame detailed records",
    "cost": "coefficients step",
    "sim": "agenda arrivals clients gateways transfers world",
    "policies/kit": "flow_ledger",
    **LIVE,
}
"""What is compiled, by folder. Every file of these folders counts as a source, for constants are written in place.

Left out: `core/spec.py`, whose frozen classes could not be copied; `core/engine/waiting.py`, which is a deque;
`core/engine/flows.py`, which asks a policy at every turn; and protocols.
"""

COPYABLE = {
    "core": "chance",
    "core/control": "control flight gateway_queue in_flight peers prefix_index state",
    "cost": "coefficients step",
    "policies/kit": "flow_ledger",
    **LIVE,
}
"""Modules whose objects may be deep-copied (the control side, and what policies may keep), and whose classes may have
interpreted subclasses, as those of the gateway do. It costs a little speed."""

FLAGS = ["-fno-semantic-interposition", "-fvisibility=hidden"]
"""For gcc and clang: nobody else links to these objects, so calls between their functions may be direct."""

APART = ("--follow-imports=skip", "--no-site-packages", "--ignore-missing-imports")
"""For mypy: what is not compiled is `Any`, installed or not: pip builds wheels in an environment without it; and
reading it, numpy's stubs above all, would take most of the time."""

BUILD = ("mypy==2.4.1", "setuptools==84.2.1")
"""What compiling needs beside the C compiler, in the versions of requirements-test.txt."""

OBJECTS = tuple(EXTENSION_SUFFIXES)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description="Compile the hot core with mypyc.")
    parser.add_argument("--remove", action="store_true", help="take the compiled modules away")
    parser.add_argument("--into", type=Path, metavar="DIR", help="make a compiled copy there instead")
    parser.add_argument("-O", default="2", choices="0123", help="how hard the C compiler is to try (default: 2)")
    options = parser.parse_args()
    if options.remove:
        remove()
        return
    reason = lacking()
    if reason:
        print(f"compile: {reason}", file=sys.stderr)
        sys.exit(2)
    if options.into:
        compile_copy(options.into.resolve(), options.O)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = compile_copy(Path(folder), options.O)
        remove()
        for file in objects(copy):
            shutil.copy2(file, PACKAGE / file.relative_to(copy))
    print("compiled; `make uncompile` goes back to pure Python")


def lacking() -> str:
    """What stands in the way of compiling, and the cure; empty if nothing does."""
    return lacking_compiler() or lacking_packages()


def lacking_compiler() -> str:
    """The C compiler or the headers of Python, where they are missing, and the cure."""
    if sys.implementation.name != "cpython":
        return f"mypyc compiles for CPython, and this is {sys.implementation.name}"
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if os.name == "posix" and shutil.which(command) is None:
        return (
            f"there is no C compiler {command!r}; install one (Debian: apt install gcc; macOS: xcode-select --install) "
            "or name yours in CC. Poise runs without it, in pure Python"
        )
    if not header.exists():
        return f"{header} is missing; install Python's headers (Debian: apt install python3-dev)"
    return ""


def lacking_packages() -> str:
    """The package that compiling needs, where it is missing, and the cure."""
    for name, package in zip(("mypyc", "setuptools"), BUILD, strict=True):
        if find_spec(name) is None:
            return f"{name} is not installed; `make compile` installs it, or {sys.executable} -m pip install {package}"
    return ""


def objects(package: Path) -> list[Path]:
    """The compiled modules in a package."""
    return sorted(file for file in package.rglob("*") if file.name.endswith(OBJECTS))


def remove() -> None:
    """Take the compiled modules away."""
    for file in objects(PACKAGE):
        file.unlink()


def compile_copy(folder: Path, level: str) -> Path:
    """A compiled copy of the package in `folder`, away from pyproject.toml, which setuptools would try to read.

    level: of the C compiler's optimisation.
    """
    from mypyc.build import mypycify
    from setuptools import setup

    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *(f"*{end}" for end in OBJECTS)))
    files = python_files(MODULES)
    lenders = [file for room in MODULES for file in sorted((PACKAGE / room).glob("*.py"))]
    sources = {file.relative_to(PACKAGE).as_posix(): crc32(file.read_bytes()) for file in lenders}
    fill_in(copy / "core" / "compiled.py", sources)
    for file in python_files(COPYABLE):
        make_copyable(folder / file)
    os.chdir(folder)
    extensions = mypycify(
        [*APART, *files],
        opt_level=level,
        debug_level="0",
        multi_file=True,
        group_name="poise.compiled",
        target_dir="build",
    )
    for extension in extensions:
        extension.extra_compile_args += FLAGS if os.name == "posix" else []
        extension.include_dirs.append(str(Path("build", PACKAGE.name)))  # where these files look for one another
    compile_side_by_side()
    setup(name="poise", packages=[], ext_modules=extensions, script_args=["--quiet", "build_ext", "--inplace"])
    for file in files:  # as they were
        shutil.copy2(PACKAGE.parent / file, file)
    return copy


def compile_side_by_side() -> None:
    """Let setuptools compile the files of an extension at once, as many as there are cores."""
    from distutils.ccompiler import CCompiler  # setuptools' own, by the name under which it is used

    one_by_one = CCompiler.compile

    def at_once(self: Any, sources: list[str], *rest: Any, **how: Any) -> list[str]:
        longest_first = sorted(sources, key=os.path.getsize, reverse=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(one_by_one, self, [source], *rest, **how) for source in longest_first]
        made = {source: job.result() for source, job in zip(longest_first, jobs, strict=True)}
        return [file for source in sources for file in made[source]]

    CCompiler.compile = at_once


def fill_in(built: Path, sources: dict[str, int]) -> None:
    """Tell the compiled code what it is made from."""
    text = built.read_text(encoding="utf-8")
    built.write_text(text.replace("= {}", f"= {sources}"), encoding="utf-8")


MARK = "from mypy_extensions import mypyc_attr"
"""Read by mypy and mypyc (`MYPY` is true to them), and not run: compiled code needs no package of theirs."""


def make_copyable(file: Path) -> None:
    """Let instances of the classes in a file be copied and pickled; no line changes its place.

    An interpreted subclass may leave `__init__` to others, and so may `copy`. mypyc's `serializable` is meant for this,
    but such a class is not initialised when Python makes one (mypy 2.4.1). A frozen one would refuse the copied state.
    """
    text = file.read_text(encoding="utf-8")
    text = text.replace("import annotations\n\n", f"import annotations; MYPY = False\nif MYPY: {MARK}\n", 1)
    text = re.sub(
        r"\n\n\n((?:@.+\n)*class \w+(?:\((?!NamedTuple|Protocol)\w+\))?:\n)",
        r"\n\n@mypyc_attr(allow_interpreted_subclasses=True)\n\1",
        text,
    )
    file.write_text(text.replace("frozen=True", "unsafe_hash=True"), encoding="utf-8")


def python_files(modules: dict[str, str]) -> list[str]:
    """The files of modules given by folder."""
    return [f"{PACKAGE.name}/{room}/{name}.py" for room, names in modules.items() for name in names.split()]


if __name__ == "__main__":
    main()
