"""The emulated engine says what a real one said: statuses, fields, chunks, errors, metrics, KV events.

The golden files come from vLLM (`tests/live/real/record.py`).
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import zmq

from poise.live.emulator.publish import KvEvents
from poise.live.http import loop
from poise.live.telemetry.metrics import COUNTERS, Reading, read
from tests.live.emulator.clients import an_engine
from tests.live.golden.asks import BLOCK, BLOCKS, CONTEXT, QUESTIONS, Question
from tests.live.golden.hear import answered, events
from tests.live.golden.shape import differences, families

GOLDEN = Path(__file__).parents[1] / "golden"
OPTIONS: dict[str, Any] = {
    "block_size": BLOCK, "num_gpu_blocks_override": BLOCKS, "max_model_len": CONTEXT, "max_num_seqs": 16,
    "enable_prompt_tokens_details": True,
}  # fmt: skip

OWN = {"vllm:cache_config_info"}
"""Of its many labels those are there that somebody reads."""


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """What the emulated engine answers, and its page of metrics then."""

    async def main() -> dict[str, Any]:
        async with an_engine(**OPTIONS) as engine:
            return await asyncio.to_thread(
                lambda: (
                    {name: answered(engine.url, question) for name, question in QUESTIONS.items()}
                    | {"metrics": answered(engine.url, Question("GET", "/metrics"))}
                )
            )

    return loop.run(main())


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers(made: dict[str, Any], name: str) -> None:
    found = list(differences(golden("answers.json")[name], made[name]))
    assert not found, "\n".join(found)


def test_metrics(made: dict[str, Any]) -> None:
    """What it has of vLLM's metrics is as there: type, labels, buckets; and it has what is read of them."""
    page = made["metrics"]["body"]
    real, here = golden("metrics.json"), families(page)
    assert here.keys() <= real.keys()
    for name in here.keys() - OWN:
        assert here[name] == real[name], name
    for name in OWN:
        assert set(here[name]["labels"]) <= set(real[name]["labels"])
    reading = read(page.encode())
    assert isinstance(reading, Reading)
    assert set(COUNTERS) <= reading.counters.keys()
    assert (reading.total_blocks, reading.block_tokens) == (BLOCKS, BLOCK)


def test_cache_events() -> None:
    """Block for block, but for tokens that it made itself."""

    async def main() -> Any:
        with zmq.Context() as context, context.socket(zmq.SUB) as socket:
            socket.bind("tcp://127.0.0.1:*")
            endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
            config = KvEvents(enable_kv_cache_events=True, endpoint=endpoint, topic="kv@test")
            async with an_engine(**OPTIONS, kv_events_config=config) as engine:
                return await asyncio.to_thread(events, engine.url, socket, "kv@test")

    real, here = golden("events.json"), loop.run(main())
    assert real[-2]["type"] == here[-2]["type"] == "BlockStored"
    for each in (real, here):
        del each[-2]["token_ids"][-3:]
    assert here == real
