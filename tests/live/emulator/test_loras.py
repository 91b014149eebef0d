"""Adapters of the emulated engine: vLLM's endpoints and sentences, its limit, and its line of metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.telemetry.metrics import AdapterNames, Reading, read
from tests.live.emulator.clients import CHAT, Line, an_engine, ask, chat
from tests.live.warp import run
from tests.patience import until

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
SQL = {"lora_name": "sql", "lora_path": "/adapters/sql"}


async def names_of(engine: Emulated) -> list[str]:
    return [row["id"] for row in json.loads((await ask(engine, "GET", "/v1/models"))[2])["data"]]


async def adapters_of(engine: Emulated) -> AdapterNames | None:
    page = read((await ask(engine, "GET", "/metrics"))[2])
    assert isinstance(page, Reading)
    return page.adapters


def test_adapters_come_and_go_while_it_runs() -> None:
    async def main() -> None:
        async with an_engine(allow_runtime_lora_updating=True) as engine:
            status, _, body = await ask(engine, "POST", LOAD, SQL)
            assert (status, body) == (200, b"Success: LoRA adapter 'sql' added successfully.")
            assert await names_of(engine) == ["tiny", "sql"]
            answer = await ask(engine, "POST", CHAT, {**chat(max_tokens=2), "model": "sql"})
            assert answer[0] == 200 and json.loads(answer[2])["model"] == "sql"
            status, _, body = await ask(engine, "POST", UNLOAD, {"lora_name": "sql"})
            assert (status, body) == (200, b"Success: LoRA adapter 'sql' removed successfully.")
            assert (await ask(engine, "POST", CHAT, {**chat(), "model": "sql"}))[0] == 404
            assert await names_of(engine) == ["tiny"]

    run(main())


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    (LOAD, {"lora_name": "a", "lora_path": ""}, 400, "Both 'lora_name' and 'lora_path' must be provided."),
    (LOAD, {"lora_name": "tiny", "lora_path": "p"}, 400, "The lora adapter 'tiny' conflicts with a served base model."),
    (LOAD, {"lora_name": "old", "lora_path": "p"}, 400, "The lora adapter 'old' has already been loaded."),
    (LOAD, {"lora_name": "a"}, 400, "Field required"),
    (LOAD, {"lora_name": "a", "lora_path": 7}, 400, "Input should be a valid string"),
    (UNLOAD, {"lora_name": "a"}, 404, "The lora adapter 'a' cannot be found."),
    (UNLOAD, {"lora_name": ""}, 400, "'lora_name' needs to be provided to unload a LoRA adapter."),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), REFUSED)
def test_mistakes_are_refused_as_vllm_refuses_them(path: str, body: dict[str, Any], status: int, message: str) -> None:
    async def main() -> None:
        async with an_engine(allow_runtime_lora_updating=True, lora_modules=("old=/adapters/old",)) as engine:
            answer = await ask(engine, "POST", path, body)
            assert (answer[0], message in json.loads(answer[2])["error"]["message"]) == (status, True), answer
            assert await names_of(engine) == ["tiny", "old"]

    run(main())


def test_the_endpoints_are_there_only_if_allowed() -> None:
    async def main() -> None:
        async with an_engine() as engine:
            assert (await ask(engine, "POST", LOAD, SQL))[0] == 404

    run(main())


def test_as_many_run_as_there_are_slots_and_the_metric_says_which() -> None:
    async def main() -> None:
        given: dict[str, Any] = {"enable_lora": True, "max_loras": 1, "max_cpu_loras": 4, "lora_modules": ("a", "b")}
        async with an_engine(**given) as engine:
            assert await adapters_of(engine) == AdapterNames(1, (), ())
            replica, lines = engine.replica, []
            engine.fault("slow", factor=2000.0)  # none ends before all have come
            for many, name in enumerate(("a", "b", "a", "tiny"), start=1):
                lines.append(await Line.to(engine))
                lines[-1].send("POST", CHAT, {**chat(max_tokens=30, ignore_eos=True), "model": name})
                await until(lambda many=many: len(replica.sequences) == many)  # type: ignore[misc]
            await until(lambda: replica.running == 3)
            assert await adapters_of(engine) == AdapterNames(1, ("a",), ("b",))
            engine.clear()
            for line in lines:
                assert (await line.answer())[0] == 200
                await line.close()
            assert replica.adapters is not None and replica.adapters.loads == 1, "a was on the device from the start"
            assert await adapters_of(engine) == AdapterNames(1, (), ())

    run(main())


def test_a_rank_is_that_of_the_adapters_own_file(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 64}')
    given: dict[str, Any] = {"enable_lora": True, "allow_runtime_lora_updating": True}

    async def main() -> None:
        async with an_engine(**given) as engine:
            status, _, body = await ask(engine, "POST", LOAD, {"lora_name": "big", "lora_path": str(tmp_path)})
            assert status == 500 and b"LoRA rank 64 is greater than max_lora_rank 16." in body
        async with an_engine(**given, max_lora_rank=64, lora_modules=(f"big={tmp_path}",)) as engine:
            assert engine.core.loras.ranks == [64]

    run(main())
    with pytest.raises(UserError, match="its rank 64 is greater than --max-lora-rank 16"):
        run(an_engine(**given, lora_modules=(f"big={tmp_path}",)).start())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_loras": 0}, "--max-loras 0 must be 1 or more"),
        ({"max_loras": 4, "max_cpu_loras": 2}, "--max-cpu-loras 2 must not be below --max-loras 4"),
    ],
)
def test_wrong_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Options(**given)
