"""The gateways that `bench/gateway.py` measures: Poise, its peers as their users start them, and the floor."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ENGINES = ("http://127.0.0.1:9100", "http://127.0.0.1:9101")
KEYS = "[{name: a, key: sk-local}]"
FLOOR = "floor: bare relay"
REFERENCE = "sglang-router cache_aware"
ALL_ON = "poise, all on"
WORKERS = "poise, all on, 2 workers"


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
    """Poise with and without what it has beside the router, the peers, and a relay in Python that decides nothing."""
    keys = folder / "keys.yaml"
    keys.write_text(KEYS)
    full = {
        "policies": {
            "router": "prefix_cache",
            "order": "virtual_token_counter",
            "admission": {"ceiling": {"requests": 512}},
        },
        "tenants": {"file": str(keys), "unknown": "default"},
    }
    here = ("--worker-urls", *ENGINES, "--host", "127.0.0.1", "--prometheus-host", "127.0.0.1")
    cache_aware = (*here, "--policy", "cache_aware")
    envoy = ("-c", "conf/envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "error")
    launch = ("-m", "sglang_router.launch_router")
    return [
        ours(folder, ALL_ON, 9301, **full, record={"file": str(folder / "day.jsonl")}),
        ours(folder, WORKERS, 9304, **full, workers=2, record={"file": str(folder / "day2.jsonl")}),
        ours(folder, "poise, round robin", 9302, policies={"router": "round_robin"}),
        Gateway(REFERENCE, "python", (*launch, *cache_aware, *ports(9203), *quiet("warn")), 9203),
        Gateway("vllm-router cache_aware", "vllm-router", (*cache_aware, *ports(9205), *quiet("warning")), 9205),
        Gateway("smg cache_aware", "smg", ("launch", *cache_aware, *ports(9209), *quiet("warn")), 9209),
        Gateway("envoy least request", "envoy", envoy, 9202),
        Gateway("nginx round robin", "nginx", ("-c", "conf/nginx.conf", "-p", "."), 9200),
        Gateway(FLOOR, sys.executable, ("floor_raw.py", "9208", *ENGINES), 9208),
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
