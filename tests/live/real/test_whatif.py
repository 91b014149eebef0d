"""A recording of real engines: it is replayed decision for decision, calibrated, and asked what if."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from poise.core.records.trace import Trace
from poise.live.http.call import Address
from poise.live.traffic import ANSWERED, PENDING, Traffic
from poise.recordings.control import replayed
from poise.workload import Workload, lognormal, poisson, shared_prefixes
from tests.live.real.clients import PATIENCE_S, patience
from tests.live.real.engines import Pair
from tests.live.real.process import NAME
from tests.live.real.served import ROOT, in_front_of

pytestmark = pytest.mark.slow

SECONDS = 60.0


def requests() -> Workload:
    """Prompts behind one of eight shared ones, at a rate that two cores can bear."""
    arrivals = poisson(
        3.0, duration_s=SECONDS, prompt_tokens=lognormal(120, 0.6), output_tokens=lognormal(40, 0.6), seed=1
    )
    return shared_prefixes(arrivals, groups=8, prefix_tokens=256, seed=1)


@pytest.fixture
def recording(pair: Pair, tmp_path: Path) -> Path:
    with in_front_of(pair, tmp_path, record={"file": str(tmp_path / "day.jsonl")}) as served:
        at = urlsplit(served.url)
        traffic = Traffic(requests(), Address("127.0.0.1", at.port or 0), NAME)

        async def main() -> None:
            done = traffic.ended
            async with patience(
                lambda: f"{(done.how == PENDING).sum()} of {len(done.how)} requests open", SECONDS + PATIENCE_S
            ):
                await traffic.run()

        asyncio.run(main())
    assert (traffic.ended.how == ANSWERED).all()
    return tmp_path / "day.jsonl"


def test_whatif(recording: Path, tmp_path: Path) -> None:
    text = tmp_path / "said.json"
    done = subprocess.run(
        [sys.executable, "-m", "poise", "whatif", recording, "--router", "round_robin", "--json", text],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    for recorded, decided in replayed(Trace.load(recording)):
        assert recorded == decided
    result: dict[str, Any] = json.loads(text.read_text(encoding="utf-8"))["reproduction"]
    observed, simulated = (result[name]["e2e_s.p50"] for name in ("observed", "simulated"))
    print(f"E2E p50: {observed:.3f} s, simulated {simulated:.3f} s")
    assert 0.5 < simulated / observed < 2, "others' work halts some requests, but not the typical one"
