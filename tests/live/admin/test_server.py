"""The admin port over real sockets, with real traffic from emulated engines."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from poise.live.admin.feed import MOST
from poise.live.admin.merge import merge
from poise.live.admin.observed_policy import ObservedPolicy
from poise.live.admin.server import LIMITS
from poise.live.requests.tenants import Tenants
from poise.policies.admit.ceiling import Ceiling
from tests.patience import PATIENCE_S, turns

from .house import House, events, house, run, until

PATHS = ("/", "/health", "/ready", "/state", "/metrics", "/decisions", "/config")


def balanced(state: dict[str, Any]) -> bool:
    """Every open request is at one engine or held."""
    at_engines = sum(each["in_flight"] for each in state["engines"].values())
    by_tenant = sum(each["open"] for each in state["tenants"].values())
    return state["requests"]["open"] == at_engines + state["requests"]["held"] == by_tenant


def test_the_state_adds_up_while_requests_come_and_go() -> None:
    async def main() -> None:
        async with house(admission=[Ceiling(2)]) as here:
            pending = [asyncio.ensure_future(here.complete(f"{n} " * 50, max_tokens=30)) for n in range(12)]
            most_held = 0
            while not all(each.done() for each in pending):
                state = (await here.look("/state")).json
                assert balanced(state)
                assert all(each["in_flight"] <= 2 for each in state["engines"].values())
                most_held = max(most_held, state["requests"]["held"])
            assert most_held > 0
            assert {each.result().status for each in pending} == {200}
            state = (await here.look("/state")).json
            assert state["requests"] == {"open": 0, "held": 0}
            assert sum(each["sent"] for each in state["engines"].values()) == 12
            assert state["tenants"][""]["requests"] == 12
            assert state["tenants"][""]["output"] == sum(
                each.result().json["usage"]["completion_tokens"] for each in pending
            )
            assert state["latency"]["e2e"]["count"] == 12
            decided = (await here.look("/decisions?n=100")).json
            assert sum(each["outcome"] == "sent" for each in decided["decisions"]) == 12

    run(main)


def test_events_begin_with_all_and_changes_lead_to_the_state() -> None:
    async def main() -> None:
        async with house() as here:
            received = asyncio.get_running_loop().create_task(
                events(here.admin_port, lambda got: len([name for name, _ in got if name == "change"]) >= 2)
            )
            await until(lambda: len(here.admin.feed) == 1)
            assert isinstance(here.gateway.control.router, ObservedPolicy)
            await here.complete("hello " * 200)
            found = await received
            assert [name for name, _ in found[:2]] == ["state", "decisions"]
            state = found[0][1]
            for name, data in found:
                if name == "change":
                    state = merge(state, data)
            assert balanced(state) and state["tenants"][""]["requests"] == 1
            (row,) = [row for name, data in found if name == "decisions" for row in data["rows"]]
            assert row["outcome"] == "sent" and {each["name"] for each in row["engines"]} == {"a", "b"}
            assert row["engines"][0]["cached_tokens"] == 0
            await until(lambda: len(here.admin.feed) == 0)
            assert not isinstance(here.gateway.control.router, ObservedPolicy), "nobody looks, nothing is looked at"

    run(main)


def test_a_page_that_does_not_read_is_bounded_and_then_cut() -> None:
    limits = LIMITS.__class__(read_s=0.3, write_buffer_bytes=4096)

    async def main() -> None:
        async with house(limits=limits) as here:
            mute = socket.socket()
            mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            mute.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(mute, ("127.0.0.1", here.admin_port))
            await loop.sock_sendall(mute, b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await until(lambda: len(here.admin.feed) == 1)
            (page,) = here.admin.feed._pages.values()
            transport = page.exchange._line._transport  # type: ignore[union-attr]
            here.admin.state = lambda: {"big": "x" * 50_000, "now": time.monotonic_ns()}  # type: ignore[method-assign]
            here.admin.feed._state = here.admin.state
            most = 0
            async with asyncio.timeout(PATIENCE_S):
                while len(here.admin.feed):
                    here.admin.feed._last = {}
                    here.admin.feed.beat()
                    most = max(most, transport.get_write_buffer_size())
                    await turns(1)
            assert page.slow and most < 10 * 50_000
            assert here.admin.server.causes["read_timeout"] == 1
            mute.close()

    run(main)


def test_only_so_many_pages_may_be_open() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            opened = [await asyncio.open_connection("127.0.0.1", here.admin_port) for _ in range(MOST)]
            for _, writer in opened:
                writer.write(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await until(lambda: len(here.admin.feed) == MOST)
            assert (await here.look("/events")).status == 503
            for _, writer in opened:
                writer.close()
            await until(lambda: len(here.admin.feed) == 0)

    run(main)


def test_a_page_may_not_be_called_by_a_name_that_is_not_its_own() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            for path in (*PATHS, "/events"):
                assert (await here.look(path, host="evil.example")).status == 421
            for name in ("localhost", "localhost:1", "127.0.0.1", "[::1]:80", "10.0.0.7"):
                assert (await here.look("/state", host=name)).status == 200
            answer = await here.look("/state", origin="http://evil.example")
            assert not [name for name in answer.headers if name.startswith("access-control")]

    run(main)


def test_with_a_token_only_the_empty_page_and_health_are_open() -> None:
    async def main() -> None:
        async with house(("a",), token="sesame") as here:
            statuses = {path: (await here.look(path)).status for path in (*PATHS, "/events")}
            assert statuses == {
                path: 200 if path in ("/", "/health", "/ready") else 401 for path in (*PATHS, "/events")
            }
            for wrong in ("Bearer", "Bearer sesam", "Bearer sesamee", "Basic sesame", "sesame"):
                assert (await here.look("/state", authorization=wrong)).status == 401
            assert (await here.look("/state", authorization="Bearer sesame")).status == 200
            assert (await here.look("/drain/a", "POST")).status == 401
            assert (await here.look("/drain/a", "POST", authorization="Bearer sesame")).status == 200

    run(main)


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}, {"host": "evil.example"}],
)
def test_no_other_site_can_drain_an_engine(headers: dict[str, str]) -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            assert (await here.look("/drain/a", "POST", **headers)).status in (403, 421)
            assert len(here.gateway.world.fleet.serving) == 1

    run(main)


def test_a_drained_engine_ends_what_it_has_leaves_and_comes_back() -> None:
    async def main() -> None:
        async with house() as here:
            origin = f"http://127.0.0.1:{here.admin_port}"
            assert (await here.look("/undrain/a", "POST")).status == 404
            assert (await here.look("/drain/nobody", "POST")).status == 404
            assert (await here.look("/drain/a")).status == 404
            assert (await here.look("/drain/a", "POST", origin=origin, sec_fetch_site="same-origin")).status == 200
            await until(lambda: [engine.name for engine in here.gateway.world.fleet] == ["b"])
            assert (await here.look("/state")).json["drained"] == ["a"]
            for n in range(4):
                assert (await here.complete(f"{n}")).status == 200
            assert (await here.look("/state")).json["engines"].popitem()[1]["sent"] == 4
            assert (await here.look("/undrain/a", "POST")).status == 200
            await until(lambda: len(here.gateway.world.fleet.serving) == 2)
            assert (await here.look("/state")).json["drained"] == []

    run(main)


def test_a_drain_can_be_taken_back_while_requests_are_there() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            long = asyncio.ensure_future(here.complete("x", max_tokens=200))
            await until(lambda: here.gateway.control.state.requests[0] == 1)
            (engine,) = here.gateway.world.fleet
            assert (await here.look("/drain/a", "POST")).json == {"engine": "a", "state": "draining"}
            assert engine.status == "draining"
            assert (await here.look("/undrain/a", "POST")).json == {"engine": "a", "state": "serving"}
            assert [*here.gateway.world.fleet] == [engine] and engine.status == "serving"
            assert (await here.complete("y")).status == 200
            assert (await long).status == 200

    run(main)


def test_readiness_follows_the_engines() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            assert (await here.look("/ready")).json == {"ready": True, "engines": 1}
            await here.look("/drain/a", "POST")
            await until(lambda: not here.gateway.world.fleet.serving)
            assert (await here.look("/ready")).status == 503
            assert (await here.look("/health")).status == 200

    run(main)


def test_nothing_may_be_loaded_from_elsewhere_and_nothing_is_kept() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            first, second = await here.look("/"), await here.look("/")
            policy = first.headers["content-security-policy"]
            nonce = policy.partition("'nonce-")[2].partition("'")[0]
            assert policy.startswith("default-src 'none'") and "unsafe" not in policy
            text = first.body.decode()
            assert text.count(f'nonce="{nonce}"') == 2 == text.count("<script nonce") + text.count("<style nonce")
            assert nonce not in second.body.decode()
            assert not [part for part in ("src=", "@import", "innerHTML", "document.write", "eval(") if part in text]
            assert [line for line in text.split('"') if line.startswith("http")] == ["http://www.w3.org/2000/svg"]
            for path in PATHS:
                headers = (await here.look(path)).headers
                assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"

    run(main)


def test_what_is_not_there_and_what_is_not_taken() -> None:
    async def main() -> None:
        async with house(("a",)) as here:
            assert (await here.look("/nothing")).status == 404
            assert (await here.look("/state", "DELETE")).status == 405
            assert (await here.look("/events", "HEAD")).status == 405
            assert (await here.look("/state", "POST")).status == 404
            for wrong in ("0", "-1", "513", "x", "٣", "9" * 40):
                assert (await here.look(f"/decisions?n={wrong.encode().decode('latin-1')}")).status == 400
            head = await here.look("/state", "HEAD")
            assert head.status == 200 and not head.body

    run(main)


def test_how_far_kv_events_are_followed_is_shown() -> None:
    async def main() -> None:
        async with house(("a",), publish=True) as here:
            for n in range(3):
                await here.complete("hello " * 100 + str(n))
            state: dict[str, Any] = {}
            while state.get("state") != "synced":
                state = (await here.look("/state")).json["engines"]["0"]["kv_events"]
            assert state["counts"].get("gaps", 0) == 0

    run(main)


# Secrets --------------------------------------------------------------------------------------------------------------

SECRETS = ("sk-client-5ecret", "sk-engine-5ecret", "prompt-5ecret", "admin-5ecret", "user-5ecret", "session-5ecret")


async def _everything(here: House) -> bytes:
    answers = [await here.look(path, authorization="Bearer admin-5ecret") for path in PATHS]
    return b"".join(each.body + repr(each.headers).encode() for each in answers)


def test_no_key_prompt_or_body_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Keys of clients and engines, prompts, bodies and headers, whether requests end well or badly."""
    file = tmp_path / "tenants.yaml"
    file.write_text("- name: team\n  key: sk-client-5ecret-0123456789abcdef\n")
    caplog.set_level(0)

    async def main() -> None:
        async with house(
            token="admin-5ecret", tenants=Tenants.of(file), engine_key="sk-engine-5ecret", admission=[Ceiling(1)]
        ) as here:
            key = "sk-client-5ecret-0123456789abcdef"
            here.admin.receipts.open()
            await asyncio.gather(
                *(here.complete(f"prompt-5ecret {n}", key, user="user-5ecret", metadata={"session": "session-5ecret"})
                  for n in range(4))
            )  # fmt: skip
            statuses = [
                (await here.complete("prompt-5ecret", "sk-client-5ecret-wrong")).status,
                (await here.complete("prompt-5ecret", key, model="unknown")).status,
                (await here.complete("prompt-5ecret", key, max_tokens="prompt-5ecret")).status,
            ]
            assert statuses == [401, 404, 400] and here.gateway.stats.tenants["team"].statuses == {200: 4}
            pages = await _everything(here)
            assert b"team" in pages
            for secret in SECRETS:
                assert secret.encode() not in pages, secret
                assert secret not in caplog.text, secret

    run(main)


def test_the_configuration_tells_policies_and_limits() -> None:
    async def main() -> None:
        async with house(("a",), admission=[Ceiling(7)]) as here:
            config = (await here.look("/config")).json
            assert config["policies"]["router"]["name"] == "PrefixCache"
            assert config["policies"]["admission"] == [
                {"name": "Ceiling", "parameters": {"requests": 7, "tokens": 0, "kv_share": 0.0, "block_tokens": 16}}
            ]
            assert config["settings"]["held"] == 10_000 and config["engines"][0]["own_key"] is False
            json.dumps(config)

    run(main)
