"""What the gateway costs beside its peers: the same work through each, paired with a direct connection, in one run.

The load, its mock engines and the stages are those of a harness that is not part of Poise (`--harness`, or the
environment's POISE_GATEWAY_BENCH): a folder with `bench.py` and `mock_backend.c`. Peers are measured where their
programs are found (`--bin`); nothing is downloaded. Every gateway gets one worker where that can be set.

    python bench/gateway.py --harness DIR --bin VENV/bin --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ENGINES = ("http://127.0.0.1:9100", "http://127.0.0.1:9101")
STARTS_S = 60.0
KEYS = "[{name: a, key: sk-local}]"


@dataclass(frozen=True)
class Gateway:
    """One gateway. command: how it is started, where `program` is found.  port: where it listens."""

    name: str
    program: str
    command: tuple[str, ...]
    port: int


def ours(folder: Path, name: str, port: int, **sections: object) -> Gateway:
    """Poise with these sections of a gateway file."""
    given = {
        "engines": list(ENGINES),
        "listen": {"port": port},
        "admin": {"port": port + 1000},
        "log": {"level": "warning"},
        **sections,
    }
    file = folder / f"{name.replace(' ', '-')}.yaml"
    file.write_text(json.dumps(given))
    return Gateway(name, sys.executable, ("-m", "poise", "serve", str(file)), port)


def gateways(folder: Path) -> list[Gateway]:
    """Poise with and without what it has beside the router, and the peers as their users start them."""
    keys = folder / "keys.yaml"
    keys.write_text(KEYS)
    full = {
        "policies": {
            "router": "prefix_cache",
            "order": "virtual_token_counter",
            "admission": {"ceiling": {"requests": 512}},
        },
        "tenants": {"file": str(keys), "unknown": "default"},
        "record": {"file": str(folder / "day.jsonl")},
    }
    here = ("--worker-urls", *ENGINES, "--host", "127.0.0.1", "--prometheus-host", "127.0.0.1")
    cache_aware = (*here, "--policy", "cache_aware")
    envoy = ("-c", "conf/envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "error")
    launch = ("-m", "sglang_router.launch_router")
    return [
        ours(folder, "poise, all on", 9301, **full),
        ours(folder, "poise, round robin", 9302, policies={"router": "round_robin"}),
        Gateway("sglang-router cache_aware", "python", (*launch, *cache_aware, *ports(9203), *quiet("warn")), 9203),
        Gateway("vllm-router cache_aware", "vllm-router", (*cache_aware, *ports(9205), *quiet("warning")), 9205),
        Gateway("smg cache_aware", "smg", ("launch", *cache_aware, *ports(9209), *quiet("warn")), 9209),
        Gateway("envoy least request", "envoy", envoy, 9202),
        Gateway("nginx round robin", "nginx", ("-c", "conf/nginx.conf", "-p", "."), 9200),
    ]


def ports(port: int) -> tuple[str, ...]:
    """Flags that the three routers share."""
    return "--port", str(port), "--prometheus-port", str(port + 20_000)


def quiet(level: str) -> tuple[str, ...]:
    """Flags for few logs, as each spells them."""
    return "--log-level", level


def found(gateway: Gateway, bins: Path | None) -> str | None:
    """The program of a gateway, if it is installed."""
    if Path(gateway.program).is_absolute():
        return gateway.program
    if bins is not None:
        for place in (bins / gateway.program, *bins.parent.glob(f"lib/python*/site-packages/*/_bin/{gateway.program}")):
            if place.exists():
                if gateway.program == "python" and not [*bins.parent.glob("lib/python*/site-packages/sglang_router")]:
                    return None
                return str(place)
    return shutil.which(gateway.program) if gateway.program != "python" else None


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process, from when its port answers; with all that it started it is ended afterwards."""
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
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body,
        {"content-type": "application/json", "authorization": "Bearer sk-local"},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(asked, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measure(gateway: Gateway, program: str, folder: Path, stages: str) -> dict[str, float]:
    """One run of all stages through a gateway."""
    out = folder / "rows.jsonl"
    with running([program, *gateway.command], folder, gateway.port) as process:
        time.sleep(1.0)  # routers look at their workers first
        subprocess.run(
            [sys.executable, "bench.py", "--name", "x", "--url", f"http://127.0.0.1:{gateway.port}", "--pid",
             str(process.pid), "--out", str(out), "--key", "sk-local", "--only", stages],
            cwd=folder, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    row = json.loads(out.read_text().splitlines()[-1])
    figures = {
        f"{stage}.{name}": value
        for stage, told in row.items()
        if isinstance(told, dict)
        for name, value in told.items()
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


def table(rows: dict[str, list[dict[str, float]]]) -> str:
    """Medians over the runs, and each as a multiple of sglang-router's CPU per request where that was measured."""
    head = ["gateway", *COLUMNS, "CPU of sglang-router's"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    middle = {
        name: {
            key: statistics.median(values) for key in COLUMNS.values() if (values := [r[key] for r in runs if key in r])
        }
        for name, runs in rows.items()
    }
    base = middle.get("sglang-router cache_aware", {}).get("rps.cpu_us_req")
    for name, figures in middle.items():
        cells = [f"{figures[key]:.3g}" if key in figures else "" for key in COLUMNS.values()]
        mine = figures.get("rps.cpu_us_req")
        cells.append(f"{mine / base:.2f}" if base and mine else "")
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--harness", type=Path, default=os.environ.get("POISE_GATEWAY_BENCH"))
    asked.add_argument("--bin", type=Path, help="where the peers' programs are")
    asked.add_argument("--repeat", type=int, default=1)
    asked.add_argument("--stages", default="latency,rps,paced,open1000")
    asked.add_argument("--only", default="", help="gateways whose name holds this")
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    if told.harness is None or not (told.harness / "bench.py").is_file():
        asked.error("--harness names no folder with bench.py; give one, or set POISE_GATEWAY_BENCH")
    for program in ("gcc", "wrk"):
        if shutil.which(program) is None:
            asked.error(f"{program} is not installed; the mock engines and the load need it")
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(told.harness, folder, dirs_exist_ok=True)
        (folder / "run").mkdir(exist_ok=True)
        subprocess.run(["gcc", "-O2", "-o", "mock", "mock_backend.c"], cwd=folder, check=True)
        with running(["./mock", "9100", "9101"], folder, 9100):
            for number in range(told.repeat):
                for gateway in gateways(folder):
                    program = found(gateway, told.bin)
                    if told.only not in gateway.name or program is None:
                        continue
                    try:
                        figures = measure(gateway, program, folder, told.stages)
                    except (RuntimeError, subprocess.CalledProcessError) as error:
                        print(f"{gateway.name}: {error}", file=sys.stderr)
                        continue
                    rows.setdefault(gateway.name, []).append(figures)
                    shown = figures.get("rps.cpu_us_req", float("nan"))
                    print(
                        f"run {number + 1}: {gateway.name}: {shown:.0f} µs CPU a request", file=sys.stderr, flush=True
                    )
    print(table(rows))
    if told.json is not None:
        told.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
