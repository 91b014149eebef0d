"""The key file's weights and limits, as the policies get them and as clients feel them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.live.http.loop import run
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.order.fcfs import Fcfs
from poise.policies.order.virtual_token_counter import VirtualTokenCounter
from poise.recordings.control import control_of
from poise.scenario.serve.build import Plan, plan
from poise.scenario.serve.load import load_gateway
from tests.live.gateway.live import Live
from tests.scenario.serve.open import Open

KEYS = """
- {name: gold, key: sk-gold, weight: 3}
- {name: thrifty, key: sk-thrifty, requests_per_minute: 2}
- {name: single, key: sk-single, concurrency: 1}
- {name: short, key: sk-short, tokens_per_minute: 100}
"""


def planned(tmp_path: Path, policies: str = "{}", keys: str = KEYS) -> Plan:
    (tmp_path / "keys.yaml").write_text(keys)
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:1]\ntenants: {{file: keys.yaml}}\npolicies: {policies}\n")
    return plan(load_gateway(file))


def test_an_order_gets_the_weights(tmp_path: Path) -> None:
    order = planned(tmp_path, "{order: virtual_token_counter}").control.order
    assert isinstance(order, VirtualTokenCounter) and order.weights == {1: 3.0}, "tenant 0 is the default"


def test_what_the_gateway_file_says_stands(tmp_path: Path) -> None:
    order = planned(tmp_path, "{order: {virtual_token_counter: {weights: {1: 9.0}}}}").control.order
    assert isinstance(order, VirtualTokenCounter) and order.weights == {1: 9.0}
    limits = planned(
        tmp_path, "{admission: {tenant_limits: {concurrency: 7, tenants: {2: {concurrency: 5}}}}}"
    ).control.admission[0]
    assert isinstance(limits, TenantLimits) and limits.concurrency == 7
    assert limits.tenants == {2: {"concurrency": 5}, 3: {"concurrency": 1}, 4: {"tokens_per_minute": 100}}


def test_orders_without_weights_are_let_be(tmp_path: Path) -> None:
    assert isinstance(planned(tmp_path, "{order: fcfs}").control.order, Fcfs)
    assert planned(tmp_path).control.order is None
    with pytest.raises(UserError, match=r"policies\.order: 'fair' is no order"):
        planned(tmp_path, "{order: fair}")


def test_limits_are_checked_before_other_admissions(tmp_path: Path) -> None:
    kinds = [type(each) for each in planned(tmp_path, "{admission: ceiling}").control.admission]
    assert kinds == [TenantLimits, Ceiling]
    assert planned(tmp_path, keys="[{name: a, key: b}]").control.admission == (), "nobody has limits"


@pytest.mark.parametrize(
    "policies",
    [
        "{order: virtual_token_counter, admission: ceiling, predictor: history}",
        "{order: fcfs, admission: {all: [ceiling, saturation]}}",
        "{router: round_robin}",
    ],
)
def test_a_recording_builds_the_same_policies_again(tmp_path: Path, policies: str) -> None:
    made = planned(tmp_path, policies)
    header: dict[str, Any] = {
        "replicas": [], "belief": {"period_s": 1.0}, "policies": made.policies, "tries": 3, "resume": False,
    }  # fmt: skip
    again = control_of(json.loads(json.dumps(header)))
    for slot in ("router", "order", "admission", "predictor"):
        assert known(getattr(again, slot)) == known(getattr(made.control, slot)), slot


def known(policy: Any) -> Any:
    """A policy's kind and parameters, or those of several."""
    if isinstance(policy, tuple):
        return [known(each) for each in policy]
    if policy is None:
        return None
    return type(policy), [getattr(policy, name, None) for name in inspect.signature(type(policy)).parameters]


def test_limits_of_tenants_end_to_end(tmp_path: Path) -> None:
    async def main() -> None:
        made = planned(tmp_path, "{order: virtual_token_counter, admission: ceiling}")
        async with Open(made, engines=1) as live:
            await thrifty(live)
            await single(live)
            await short(live)
            assert (await live.ask(headers=key("gold")).wait()).whole, "who has no limit has none"

    run(main())


def key(tenant: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer sk-" + tenant.encode())]


async def thrifty(live: Live) -> None:
    """Two requests a minute: the third is told when one is in the bucket again."""
    answers = [await live.ask(headers=key("thrifty")).wait() for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert "over its tenant's requests a minute" in answers[2].error
    assert 20 <= int(answers[2].headers[b"retry-after"]) <= 30, "one is in the bucket half a minute after the first"


async def single(live: Live) -> None:
    """One at once: the next is turned away until the first has ended."""
    first = live.ask(tokens=400, headers=key("single"))
    await first.began.wait()
    second = await live.ask(headers=key("single")).wait()
    assert second.status == 429 and b"retry-after" not in second.headers, "nobody knows when the first ends"
    assert (await first.wait()).whole
    assert (await live.ask(headers=key("single")).wait()).whole


async def short(live: Live) -> None:
    """A hundred tokens a minute: output is paid afterwards."""
    first = await live.ask("word " * 20, tokens=180, headers=key("short")).wait()
    second = await live.ask("word " * 20, tokens=1, headers=key("short")).wait()
    assert first.whole and second.status == 429
    assert int(second.headers[b"retry-after"]) > 60, "more than a minute's worth was used"
