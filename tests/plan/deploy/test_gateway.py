"""The gateway file of a plan: `poise serve` takes it, starts on it, and knows each replica for what it is."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from poise.core.spec import Belief
from poise.plan.deploy.gateway import gateway, prefill_rate
from poise.plan.deploy.place import places
from poise.plan.deploy.reads import follows_events
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet
from poise.scenario.serve.build import plan
from poise.scenario.serve.load import LoadedGateway, load_gateway
from poise.scenario.simulate import replica_specs
from tests.patience import PATIENCE_S
from tests.plan.deploy.fleets import a_pool, a_setting, fleets
from tests.scenario.serve.test_process import serving

SPLIT = Fleet((a_pool(role="prefill", tensor=2), a_pool(role="decode", replicas=2)), "pd_pair")


def loaded(fleet: Fleet, setting: Setting, folder: Path) -> LoadedGateway:
    file = folder / "gateway.yaml"
    file.write_text(gateway(fleet, setting), encoding="utf-8")
    return load_gateway(file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@given(fleet=fleets())
@settings(max_examples=40)
def test_the_gateway_plans_with_it(folder: Path, fleet: Fleet) -> None:
    setting = a_setting()
    made = plan(loaded(fleet, setting, folder))
    placed = places(fleet, setting)
    assert [each.place.name for each in made.engines] == [each.name for each in placed]
    assert [(each.place.host, each.place.port) for each in made.engines] == [(each.head, each.port) for each in placed]
    assert [each.role for each in made.engines] == [fleet.pools[each.pool].role for each in placed]
    assert fleet.router in str(made.policies["router"])
    assert made.loaded.gateway.listen.port == setting.gateway_port


def test_replicas_are_as_fast_as_they_were_simulated() -> None:
    pools = (a_pool("qwen3-30b-a3b", data=4, expert=4), a_pool(kind="L40S", weights="fp8"))
    fleet, setting = Fleet(pools), a_setting()
    specs = replica_specs(fleet.cluster(), [setting.cost.build(pool) for pool in pools])
    assert [prefill_rate(pool, setting) for pool in pools] == [
        pytest.approx(spec.prefill_rate, abs=0.05) for spec in specs
    ]


def test_caches_are_followed_where_they_can_be() -> None:
    equal = Fleet((a_pool(replicas=2),), "prefix_cache")
    known = a_setting(tokenizer="/models/llama")
    assert follows_events(equal, known) and not follows_events(equal, a_setting())
    assert not follows_events(replace(equal, router="least_requests"), known)
    assert not follows_events(Fleet((a_pool("qwen3-30b-a3b", data=4, expert=4),), "prefix_cache"), known)
    text = gateway(equal, known)
    assert "kv_events: tcp://127.0.0.1:8600" in text and "kv_replay: tcp://127.0.0.1:9700" in text
    assert "tokenizer: /models/llama" in text
    assert "simulated was oracle" in gateway(equal, a_setting(belief=Belief(prefix="oracle")))


def test_poise_serve_starts_on_it(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "gateway.yaml"
        file.write_text(gateway(SPLIT, a_setting(port=41000)), encoding="utf-8")
        here = ("--port", "0", "--set", "listen.host=127.0.0.1", "--set", "admin.port=null")
        async with serving(str(file), *here) as gate:
            answer = gate.send(b"GET", b"/v1/models")
            async with asyncio.timeout(PATIENCE_S):
                await answer.over.wait()
            assert [each["id"] for each in json.loads(answer.body)["data"]] == ["meta-llama/Llama-3.1-8B"]
            gate.process.send_signal(signal.SIGTERM)
            code, text = await gate.ends()
            assert code == 0, text

    asyncio.run(main())
