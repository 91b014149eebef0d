"""A policy acts where it is named, or is refused in one line that says where it would act."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.core.slot import CONTROL, SCENARIO, SLOTS, USE, acting, elsewhere
from poise.policies.find import names
from poise.scenario.serve.build import GATE, plan
from poise.scenario.serve.load import load_gateway

ENGINES = "engines: [http://127.0.0.1:1]\n"


def test_the_table_has_every_slot_and_every_slot_acts_somewhere() -> None:
    assert {world for slot in SLOTS.values() for world in slot.worlds} == set(USE)
    assert acting("inside") == ("queue", "batcher", "preempt", "cache")
    assert set(acting("ray")) < set(acting("proxy")) < set(acting("gateway")) == {*GATE, "cache"}
    assert set(SCENARIO) - {"queue", "batcher", "preempt", "cache"} == set(CONTROL)


@pytest.mark.parametrize("slot", sorted(set(SCENARIO) - set(acting("gateway"))))
def test_a_policy_that_does_not_act_in_a_gateway_is_refused(tmp_path: Path, slot: str) -> None:
    file = tmp_path / "gateway.yaml"
    name = names(slot)[0]
    file.write_text(f"{ENGINES}policies:\n  router: round_robin\n  {slot}: {name}\n")
    with pytest.raises(UserError) as caught:
        plan(load_gateway(file))
    message = str(caught.value)
    assert message.startswith(f"{file}:4: policies.{slot}: acts ") and "\n" not in message
    assert "not in a gateway (poise serve); use it in a scenario (poise simulate)" in message
    assert ("inside vLLM" in message) == (slot in acting("inside"))


def test_it_is_refused_on_the_command_line_too_and_null_names_nothing() -> None:
    engines = "engines=[http://127.0.0.1:1]"
    with pytest.raises(UserError, match=r"--set policies\.batcher=sarathi: policies\.batcher: acts inside engines"):
        plan(load_gateway(None, [engines, "policies.batcher=sarathi"]))
    assert plan(load_gateway(None, [engines, "policies.recovery=null"])).control.recovering is None


@pytest.mark.parametrize("slot", ["hedge", "mover"])
def test_behind_a_proxy_nothing_is_sent_twice_or_moved(tmp_path: Path, slot: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{ENGINES}policies: {{router: round_robin, {slot}: {names(slot)[0]}}}\n")
    assert plan(load_gateway(file))
    file.write_text(f"{file.read_text()}envoy: {{port: 0}}\n")
    with pytest.raises(UserError, match=rf":2: policies\.{slot}: acts where the gateway itself sends requests, not in"):
        plan(load_gateway(file))


def test_a_forecast_needs_a_scaler_that_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{ENGINES}policies: {{forecast: recent}}\n")
    with pytest.raises(UserError, match=r":2: policies\.forecast: no scaler uses it; name a scaler"):
        plan(load_gateway(file))
    assert elsewhere("forecast", "gateway") == ""
