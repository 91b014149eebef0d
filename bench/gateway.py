"""What the gateway costs beside its peers: short slices of the same work through each in turn, in one run.

The load, its mock engines and the stages are those of a harness that is not part of Poise (`--harness`, or the
environment's POISE_GATEWAY_BENCH): a folder with `bench.py`, `mock_backend.c` and `floor_raw.py`. Peers are measured
where their programs are found (`--bin`); nothing is downloaded. Every gateway gets one worker where that can be set.

All gateways run all the time. A round gives each of them one slice, in an order drawn anew, so that a neighbour on the
machine cannot favour one. Ratios are taken within a round, and only between slices in which other processes took less
than a tenth of a core: a ratio from a busy machine is no figure.

    python bench/gateway.py --harness DIR --bin VENV/bin --rounds 9 --stages rps
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from peers.gateways import ALL_ON, FLOOR, REFERENCE, WORKERS, Gateway, found, gateways
from peers.neighbours import QUIET, Watch, load

STARTS_S = 60.0
LEAST_ROUNDS = 5
"""Quiet pairs that a ratio needs."""
LONG = ("open1000",)
"""Stages of memory, which no neighbour disturbs: one slice in the first round."""


class Slice(NamedTuple):
    """One gateway's figures of one round. others: cores that other processes took meanwhile.  load: of the minute."""

    round: int
    figures: dict[str, float]
    others: float
    load: float


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process, from when its port answers; with all that it started it is ended afterwards.

    RuntimeError where another process has the port: its work would be taken for that of this one.
    """
    if answers(port):
        raise RuntimeError(f"another process answers on {port}; end it first")
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        until = time.monotonic() + STARTS_S
        while not answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not listen on {port}")
            time.sleep(0.2)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(port: int) -> bool:
    """Whether a request gets through to a mock engine."""
    body = b'{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":100004}'
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body,
        {"content-type": "application/json", "authorization": "Bearer sk-local"},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measure(gateway: Gateway, pid: int, folder: Path, stages: str, secs: int) -> dict[str, float]:
    """One slice of all stages through a gateway."""
    out = folder / "rows.jsonl"
    subprocess.run(
        [sys.executable, "bench.py", "--name", "x", "--url", f"http://127.0.0.1:{gateway.port}", "--pid", str(pid),
         "--out", str(out), "--key", "sk-local", "--only", stages, "--secs", str(secs), "--n", "100"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    row = json.loads(out.read_text().splitlines()[-1])
    figures = {
        f"{stage}.{name}": value
        for stage, values in row.items()
        if isinstance(values, dict)
        for name, value in values.items()
    }
    if "latency" in row:
        figures["latency.added"] = figures["latency.lat_proxy_p50"] - figures["latency.lat_direct_p50"]
    return {name: value for name, value in figures.items() if isinstance(value, int | float)}


COLUMNS = {
    "CPU µs/request": "rps.cpu_us_req",
    "requests/s, of direct": "rps.ratio",
    "CPU µs/chunk": "paced.cpu_us_chunk",
    "chunk delay p50 ms": "paced.delay_ms_p50",
    "added p50 µs": "latency.added",
    "idle MB": "open1000.idle_mb",
    "KB/stream at 1000": "open1000.kb_per_stream",
    "streams left": "open1000.backend_streams_2s_after_drop",
}
"""For each column, the harness's stage and figure."""


def quiet(rows: list[Slice]) -> dict[int, Slice]:
    """By round, the slices in which other processes took next to nothing."""
    return {row.round: row for row in rows if row.others < QUIET}


def ratio(rows: list[Slice], base: list[Slice], key: str = "rps.cpu_us_req") -> str:
    """The median of the ratios within rounds whose two slices were quiet, and their extremes; or why there is none."""
    mine, others = quiet(rows), quiet(base)
    pairs = [
        mine[number].figures[key] / others[number].figures[key]
        for number in mine.keys() & others.keys()
        if key in mine[number].figures and others[number].figures.get(key)
    ]
    if len(pairs) < LEAST_ROUNDS:
        return f"no figure ({len(pairs)} quiet pairs)"
    return f"{statistics.median(pairs):.2f} ({min(pairs):.2f}–{max(pairs):.2f}, {len(pairs)})"


def table(rows: dict[str, list[Slice]]) -> str:
    """Minimum and median of each figure, and CPU per request over that of the floor and of sglang-router, by rounds."""
    head = ["gateway", *COLUMNS, "of the floor's CPU/request", "of sglang-router's", "others' cores"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, slices in rows.items():
        cells = []
        for key in COLUMNS.values():
            values = [row.figures[key] for row in slices if key in row.figures]
            cells.append(f"{min(values):.3g} / {statistics.median(values):.3g}" if values else "")
        cells += [ratio(slices, rows[base]) if base in rows else "" for base in (FLOOR, REFERENCE)]
        cells.append(f"{statistics.median(row.others for row in slices):.2f}")
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def rounds(folder: Path, bins: Path | None, options: argparse.Namespace) -> dict[str, list[Slice]]:
    """All slices of every gateway that is installed, starts and stays."""
    rows: dict[str, list[Slice]] = {}
    draw = random.Random(options.seed)
    with ExitStack() as stack:
        stack.enter_context(running(["./mock", "9100", "9101"], folder, 9100))
        started: list[tuple[Gateway, int]] = []
        for gateway in gateways(folder):
            program = found(gateway, bins)
            if program is None or not any(part in gateway.name for part in options.only.split(",")):
                continue
            try:
                process = stack.enter_context(running([program, *gateway.command], folder, gateway.port))
            except RuntimeError as error:
                print(f"{gateway.name}: {error}", file=sys.stderr)
                continue
            started.append((gateway, process.pid))
            rows[gateway.name] = []
        time.sleep(1.0)  # routers look at their workers first
        for number in range(options.rounds):
            stages = ",".join(each for each in options.stages.split(",") if number == 0 or each not in LONG)
            for gateway, pid in draw.sample(started, len(started)) if stages else ():
                watch = Watch()
                figures = measure(gateway, pid, folder, stages, options.secs)
                row = Slice(number, figures, watch.cores(), load())
                rows[gateway.name].append(row)
                print(
                    f"round {number + 1}: {gateway.name}: {figures.get('rps.cpu_us_req', float('nan')):.0f} µs CPU a "
                    f"request; load {row.load:.1f}, others {row.others:.2f} cores",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
    return rows


def main() -> None:
    asking = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asking.add_argument("--harness", type=Path, default=os.environ.get("POISE_GATEWAY_BENCH"))
    asking.add_argument("--bin", type=Path, help="where the peers' programs are")
    asking.add_argument("--rounds", type=int, default=9)
    asking.add_argument("--secs", type=int, default=2, help="seconds of a slice's flood of requests")
    asking.add_argument("--stages", default="latency,rps,paced,open1000")
    asking.add_argument("--only", default="", help="gateways whose name holds one of these, by commas")
    asking.add_argument("--seed", type=int, default=0, help="of the order within rounds")
    asking.add_argument("--json", type=Path)
    options = asking.parse_args()
    if options.harness is None or not (options.harness / "bench.py").is_file():
        asking.error("--harness names no folder with bench.py; give one, or set POISE_GATEWAY_BENCH")
    for program in ("gcc", "wrk"):
        if shutil.which(program) is None:
            asking.error(f"{program} is not installed; the mock engines and the load need it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(options.harness, folder, dirs_exist_ok=True)
        (folder / "run").mkdir(exist_ok=True)
        subprocess.run(["gcc", "-O2", "-o", "mock", "mock_backend.c"], cwd=folder, check=True)
        rows = rounds(folder, options.bin, options)
    busy = sum(row.others >= QUIET for slices in rows.values() for row in slices)
    print(f"{os.cpu_count()} cores; {busy} of {sum(map(len, rows.values()))} slices beside busy neighbours\n")
    print(table(rows))
    if ALL_ON in rows and WORKERS in rows:
        print(f"\nTwo workers carry twice as much as one times {ratio(rows[ALL_ON], rows[WORKERS])} (CPU a request)")
    if options.json is not None:
        options.json.write_text(json.dumps({name: [row._asdict() for row in each] for name, each in rows.items()}))


if __name__ == "__main__":
    main()
