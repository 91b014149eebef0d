"""Try an installed Poise: run its commands, compiled and as pure Python, and compare all files that they write.

    python tools/try_wheel.py --core compiled       in the environment of a compiled wheel
    python tools/try_wheel.py --core interpreted    in that of the pure wheel, which has one way to run

Run it by the Python of the environment, where Poise is installed as a wheel. Exit 1 with a line for what is wrong.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import distribution
from pathlib import Path

SCENARIO = """\
model: llama-3.1-8b
cluster:
  pools:
    - {device: H100, replicas: 4}
workload:
  poisson:
    rate: 40
    requests: 400
    prompt_tokens: {lognormal: {mean: 400, cv: 1}}
    output_tokens: {lognormal: {mean: 100, cv: 1}}
  shared_prefixes: {groups: 100, prefix_tokens: 2000}
policies:
  router: [least_requests, prefix_cache]
slo: {ttft_s: 0.5, tpot_s: 0.05}
run: {seeds: 2, warmup_s: 1}
"""

COMMANDS = (
    "demo --trace trace.csv --out demo",
    "simulate scenario.yaml --router prefix_cache --blame --out one",
    "compare scenario.yaml --loads 0.5,1 --jobs 2 --requests --out two",
    "plan --model llama-3.1-8b --devices H100,L40S --slo ttft_s=1,tpot_s=0.05 --rate 4 --prompt-tokens 500"
    " --output-tokens 50 --no-split --jobs 1 --out fleet",
    "train plan llama-3-8b --devices H100 --gpus 8 --batch 64 --seq 4096 --out training",
)
"""Short runs of what most people begin with."""

OBJECTS = tuple(EXTENSION_SUFFIXES)


def main() -> None:
    """Run all commands each way that this wheel has, and say how long they took."""
    parser = argparse.ArgumentParser(description="Try an installed Poise.")
    parser.add_argument("--core", required=True, choices=("compiled", "interpreted"), help="what --version is to say")
    core = parser.parse_args().core
    site = Path(str(distribution("poise").locate_file(""))).resolve()
    with tempfile.TemporaryDirectory(prefix="poise-try-") as folder:
        outputs = run_all(Path(folder, core), str(site), core)
        if core == "compiled":
            pure = Path(folder, "pure")
            copy_sources(site, pure)
            compare(outputs, run_all(Path(folder, "interpreted"), str(pure), "interpreted"))


def run_all(folder: Path, path: str, core: str = "") -> dict[str, bytes]:
    """All commands in a new folder by the Poise on `path`; returns the files that they wrote, and what they printed.

    path: for PYTHONPATH.  core: what its core is to be, if that matters.
    """
    folder.mkdir()
    (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    rows = "".join(f"{at / 10},{300 + at * 37 % 900},{20 + at * 13 % 90}\n" for at in range(200))
    (folder / "trace.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}", encoding="utf-8")
    printed = run("--version", folder, path).decode().strip()
    if core and not printed.endswith(f"({core} core)"):
        sys.exit(f"{printed}: its core is not {core}")
    began = time.monotonic()
    outputs = {f"standard output of {command}": run(command, folder, path) for command in COMMANDS}
    print(f"{printed}, Python {sys.version.split()[0]}: {len(COMMANDS)} commands in {time.monotonic() - began:.1f} s")
    written = {file.relative_to(folder).as_posix(): plain(file) for file in sorted(folder.rglob("*")) if file.is_file()}
    return outputs | written


def run(command: str, folder: Path, path: str) -> bytes:
    """The standard output of one command."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "poise", *command.split()], cwd=folder, env=environment, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"poise {command}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def plain(file: Path) -> bytes:
    """The bytes of a file, unpacked where they are packed."""
    data = file.read_bytes()
    return gzip.decompress(data) if file.suffix == ".gz" else data


def copy_sources(site: Path, pure: Path) -> None:
    """The installed package without its objects: the same files as the pure wheel's."""
    for file in distribution("poise").files or ():
        path = Path(file)
        inside = path.parts[0] == "poise" or path.parts[0].endswith(".dist-info")
        if inside and not path.name.endswith((*OBJECTS, ".pyc")):
            (pure / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(site / path, pure / path)


def compare(compiled: dict[str, bytes], interpreted: dict[str, bytes]) -> None:
    """Exit 1 unless all outputs are equal to the byte but for the word that names the core, and times of computing."""
    if compiled.keys() != interpreted.keys():
        sys.exit(f"only one of the two wrote {sorted(compiled.keys() ^ interpreted.keys())}")
    other = [name for name, data in compiled.items() if without_core(data) != without_core(interpreted[name])]
    if other:
        sys.exit(f"compiled and pure Python differ in {', '.join(other)}")
    print(f"{len(compiled)} outputs, {sum(map(len, compiled.values())):,} bytes: compiled and pure Python are equal")


TIMES = re.compile(
    rb'"(?:cpu_s|wall_s|first_s|layouts_per_s)": [0-9.e+-]+'  # of JSON
    rb"|[0-9.]+ s \([0-9,]+ a second\)"  # of `poise train plan`
)
"""The seconds that computing took, and what is derived from them."""

CORE = re.compile(rb'\bcore"?: "?(?:compiled|interpreted)\b|\b(?:compiled|interpreted) core\b')
"""The core in JSON and YAML (`core: compiled`) and in pages (`compiled core`)."""


def without_core(data: bytes) -> bytes:
    """An output without the core's name in its provenance and without the seconds that computing took."""
    return TIMES.sub(b"", CORE.sub(b"", data))


if __name__ == "__main__":
    main()
