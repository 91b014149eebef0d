"""The gateway file is read again: what can act acts, all else is named, mistakes change nothing, recordings replay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from poise.core.event import Exchanged
from poise.core.records.trace import read_header
from poise.core.spec import ReplicaSpec
from poise.live.admin.decisions import Receipts
from poise.live.admin.observed_policy import ObservedPolicy
from poise.live.admin.resolved import resolved
from poise.live.admin.server import Admin
from poise.live.gateway.gateway import Gateway
from poise.live.http.loop import run
from poise.live.parts import read_recording
from poise.live.requests.parsed_request import BadRequest
from poise.policies.admit.ceiling import Ceiling
from poise.policies.admit.tenant_limits import TenantLimits
from poise.policies.route.prefix_cache import PrefixCache
from poise.policies.route.round_robin import RoundRobin
from poise.recordings.control import replayed
from poise.scenario.serve.build import gateway_of, plan, record
from poise.scenario.serve.load import load_gateway
from poise.scenario.serve.reload import Reload
from poise.scenario.serve.roll import Roll
from tests.live.gateway.fakes import JSON, FakePool, Wire
from tests.patience import until
from tests.scenario.serve.test_process import engines, serving

ENGINES = "engines: [http://127.0.0.1:1]\n"


class Served:
    """A gateway file, and the gateway that was made of it, before it listens."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "gateway.yaml"
        planned = plan(load_gateway(self.file))
        self.gateway: Gateway = gateway_of(planned)
        self.gateway.world.fleet._connect = FakePool  # type: ignore[assignment]
        roll = Roll(self.gateway)
        roll.list(planned.engines)
        self.reload = Reload(planned, self.gateway, roll, lambda before: plan(load_gateway(self.file), before))

    def again(self, text: str) -> None:
        """The file is written anew, and read again."""
        self.file.write_text(text)
        self.reload.now()

    def who(self, key: bytes) -> str:
        """The tenant of a key, empty for nobody."""
        tenant = self.gateway.api._who({b"authorization": b"Bearer " + key}.get)
        return "" if isinstance(tenant, BadRequest) else tenant.name


@asynccontextmanager
async def served(folder: Path, text: str) -> AsyncIterator[Served]:
    (folder / "gateway.yaml").write_text(text)
    here = Served(folder)
    try:
        yield here
    finally:
        await here.gateway.stop(0)


def test_policies_limits_tenants_and_keys_act_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    keys = tmp_path / "keys.yaml"

    async def main() -> None:
        keys.write_text("[{name: a, key: sk-a}, {name: b, key: sk-b}]")
        first = f"{ENGINES}tenants: {{file: keys.yaml}}\npolicies: {{router: round_robin}}\n"
        async with served(tmp_path, first) as here:
            gateway = here.gateway
            assert (here.who(b"sk-a"), here.who(b"sk-c")) == ("a", "")
            keys.write_text("[{name: b, key: sk-b2, weight: 2}, {name: c, key: sk-c, concurrency: 4}]")
            here.again(
                f"{ENGINES}tenants: {{file: keys.yaml}}\nlimits: {{held_s: 7, body_mb: 1, stall_s: 9, drain_s: 3}}\n"
                "policies: {router: prefix_cache, order: virtual_token_counter, admission: ceiling}\nshadow: dualmap\n"
            )
            assert type(gateway.control.router) is PrefixCache
            assert [type(each) for each in gateway.control.admission] == [TenantLimits, Ceiling]
            assert [here.who(key) for key in (b"sk-a", b"sk-b", b"sk-b2", b"sk-c")] == ["", "", "b", "c"]
            numbers = {tenant.name: tenant.id for tenant in gateway.api._tenants.all}  # type: ignore[union-attr]
            assert numbers == {"default": 0, "b": 2, "c": 3}, "a tenant stays who it was, and no number is given twice"
            assert gateway.named["order"]["virtual_token_counter"]["weights"] == {"2": 2.0}
            settings = resolved(gateway)
            assert settings["policies"]["router"]["name"] == "PrefixCache"
            assert settings["settings"]["held_s"] == 7 and gateway.server.limits.body_bytes == 1 << 20
            assert gateway.world.settings.engines.stall_s == 9 and here.reload.drain_s == 3
            assert settings["needs_restart"] == ["shadow"] and settings["policies"]["router"]["parameters"]
            (warned,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
            assert warned == f"{here.file}:5: shadow: needs a restart; until then what was in force stays"
            (messages,) = [each.getMessage() for each in caplog.records if "was read again" in each.getMessage()]
            for field in ("policies.router", "policies.order", "policies.admission", "limits.held_s", "tenants.file"):
                assert field in messages

    run(main())


def test_every_field_either_acts_or_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One change in each section of the file: what did not act is warned of, field by field, until it is taken back."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with served(tmp_path, ENGINES) as here:
            here.again(
                f"{ENGINES}listen: {{port: 1, host: 0.0.0.0}}\nadmin: {{port: null}}\nslots: 9\ntries: 2\nseed: 3\n"
                f"discover: {{period_s: 9}}\nbelief: {{period_s: 9, prefix_tokens: 9}}\nlog: {{access: true}}\n"
                "policies: {scaler: kpa, router: round_robin}\npools: [{max_replicas: 2}]\nrecord: {file: day.jsonl}\n"
                "traces: {endpoint: 'http://x'}\nlimits: {ttft_s: 5}\n"
            )
            restart = {
                "listen.port", "listen.host", "admin.port", "slots", "tries", "seed", "discover.period_s", "record",
                "belief.period_s", "belief.prefix_tokens", "log.access", "policies.scaler", "pools", "traces",
            }  # fmt: skip
            assert set(here.gateway.pending) == restart
            warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
            assert len(warned) == len(restart) and all(
                "\n" not in each and "needs a restart" in each for each in warned
            )
            assert here.gateway.control.tries == 3 and here.gateway.control.scaling is None
            assert here.gateway.world.settings.ttft_s == 5 and here.gateway.world.settings.prefix_tokens == 4_000_000
            assert here.reload.plan.file.tries == 3, "what is in force is what it was"
            caplog.clear()
            here.again(ENGINES)
            assert here.gateway.pending == [] and here.gateway.world.settings.ttft_s == 0
            assert type(here.gateway.control.router) is PrefixCache
            assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
            here.reload.now()
            assert "changed: nothing" in caplog.records[-1].getMessage()

    run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        "limits: {held_s: -1}",
        "policies: {router: fastest}",
        "policies: {batcher: sarathi}",
        "tenants: {file: none.yaml}",
    ],
)
def test_a_file_with_a_mistake_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str) -> None:
    async def main() -> None:
        async with served(tmp_path, ENGINES) as here:
            before, router = resolved(here.gateway), here.gateway.control.router
            here.again(f"engines: [http://127.0.0.1:2]\nshadow: dualmap\n{wrong}\n")
            assert resolved(here.gateway) == before and here.gateway.control.router is router
            (messages,) = [each.getMessage() for each in caplog.records]
            assert messages.startswith("the gateway file is not taken, and nothing changes: ") and "\n" not in messages
            here.again(ENGINES)
            assert resolved(here.gateway) == before

    run(main())


def test_behind_a_proxy_policies_and_tenants_wait_for_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, f"{ENGINES}envoy: {{port: 0}}\n") as here:
            router, tenants = here.gateway.control.router, here.gateway.api._tenants
            here.again(
                f"{ENGINES}envoy: {{port: 0}}\npolicies: {{router: round_robin}}\ntenants: {{header: x-t}}\n"
                "limits: {held_s: 1}\n"
            )
            assert here.gateway.control.router is router and here.gateway.api._tenants is tenants
            assert set(here.gateway.pending) == {"policies.router", "tenants.header"}
            assert here.gateway.world.settings.held_s == 1

    run(main())


def test_the_shadow_and_the_page_look_at_the_new_router(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, f"{ENGINES}policies: {{router: round_robin}}\nshadow: dualmap\n") as here:
            control, receipts = here.gateway.control, Receipts(here.gateway.world)
            receipts.open()
            here.again(f"{ENGINES}policies: {{router: prefix_cache, order: edf}}\nshadow: dualmap\n")
            receipts.open()
            assert isinstance(control.router, ObservedPolicy) and type(control.router.active) is PrefixCache
            assert isinstance(control.router.shadow, ObservedPolicy) and not isinstance(
                control.router.shadow.policy, ObservedPolicy
            )
            here.again(f"{ENGINES}policies: {{router: prefix_cache, order: fcfs}}\nshadow: dualmap\n")
            receipts.open()
            assert isinstance(control.router.shadow, ObservedPolicy) and not isinstance(
                control.router.shadow.policy, ObservedPolicy
            )
            receipts.close()
            assert control.router is control.own["router"] and not isinstance(control.router.shadow, ObservedPolicy)

    run(main())


def test_a_recording_goes_on_in_its_next_part_and_replays_as_a_whole(tmp_path: Path) -> None:
    """Requests are held and in flight when the router changes; every event is answered alike when it is read back."""

    async def main() -> None:
        text = "engines: [http://127.0.0.1:1, http://127.0.0.1:2]\nrecord: {file: day.jsonl}\n"
        keys = "policies: {router: round_robin, admission: {ceiling: {requests: 2}}}\n"
        async with served(tmp_path, text + keys) as here:
            gateway, world = here.gateway, here.gateway.world
            record(here.reload.plan, gateway, world.clock())
            for engine in world.fleet:
                world.fleet.join(engine, ReplicaSpec(up=False, capacity_tokens=9000))
            wires = [_ask(gateway, number) for number in range(8)]
            assert len(gateway.control.held) == 4
            here.again(text + "policies: {router: prefix_cache, order: edf, admission: {ceiling: {requests: 3}}}\n")
            assert len(gateway.control.held) == 2 and len(gateway.control.flights) == 6
            wires += [_ask(gateway, number) for number in range(3)]
            here.again(text + "policies: {router: prefix_cache}\n")
            assert not gateway.control.held and not gateway.pending
            for engine in world.fleet:
                for call in [each for each in engine.pool.open if each.body]:  # type: ignore[attr-defined]
                    call.head(200, JSON)
                    call.data(b"{}")
                    call.end()
            assert all(wire.done and wire.status == 200 for wire in wires), "no open request was lost"
            assert gateway.recorder is not None
            gateway.recorder.flush(world.clock())

    run(main())
    files = sorted(tmp_path.glob("day*.jsonl"))
    assert [each.name for each in files] == ["day.0001.jsonl", "day.0002.jsonl", "day.jsonl"]
    headers = [read_header(each.read_text().partition("\n")[0], each) for each in (files[2], *files[:2])]
    assert [next(iter(each["policies"]["router"])) for each in headers] == [
        "round_robin",
        "prefix_cache",
        "prefix_cache",
    ]
    trace = read_recording(tmp_path / "day.jsonl")
    assert [type(event) for event in trace.events].count(Exchanged) == 2
    pairs = list(replayed(trace))
    assert sum(len(recorded) for recorded, _ in pairs) == 11 and all(recorded == decided for recorded, decided in pairs)


def _ask(gateway: Gateway, number: int) -> Wire:
    """A client's chat, of which several begin alike."""
    from poise.live.http.exchange import Exchange

    wire = Wire()
    text = f"Tell me of thing {number % 3}. " * 30
    body = b'{"model": "m", "prompt": "%s", "max_tokens": 4}' % text.encode()
    exchange = Exchange("POST", b"/v1/completions", [], body, gateway.world.clock())
    exchange.join(wire, "127.0.0.1")
    gateway.api.receive(exchange)
    return wire


def test_a_gateway_that_serves_changes_its_router_and_its_keys(tmp_path: Path) -> None:
    """SIGHUP to a process with streams under way: they end whole, new keys are let in, old ones are not."""
    import signal

    async def main() -> None:
        async with engines(2, speed=1.0) as made:
            file, keys = tmp_path / "gateway.yaml", tmp_path / "keys.yaml"
            rest = (
                f"engines: [{made[0].url}, {made[1].url}]\nlisten: {{port: 0}}\nadmin: {{port: null}}\n"
                "tenants: {file: keys.yaml}\nrecord: {file: day.jsonl}\n"
            )
            keys.write_text("[{name: a, key: sk-a}]")
            file.write_text(f"{rest}policies: {{router: round_robin}}\n")
            async with serving(str(file)) as gateway:
                await gateway.logged(b" joined", 2)
                old, new = ([(b"authorization", b"Bearer sk-%b" % name)] for name in (b"a", b"b"))
                streams = [gateway.ask(tokens=60, headers=old) for _ in range(4)]
                for stream in streams:
                    await stream.began.wait()
                keys.write_text("[{name: b, key: sk-b}]")
                file.write_text(f"{rest}policies: {{router: prefix_cache}}\nseed: 5\n")
                gateway.process.send_signal(signal.SIGHUP)
                await gateway.logged(b"was read again")
                assert b"gateway.yaml:7: seed: needs a restart" in gateway.log
                assert (await gateway.ask(headers=old).wait()).status == 401
                assert (await gateway.ask(tokens=2, headers=new).wait()).whole
                assert all([(await stream.wait()).whole for stream in streams])
                gateway.process.terminate()
                code, log = await gateway.ends()
                assert code == 0 and "Traceback" not in log
            pairs = list(replayed(read_recording(tmp_path / "day.jsonl")))
            assert all(recorded == decided for recorded, decided in pairs)

    run(main())


def test_a_watched_file_with_a_mistake_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from poise.live.discovery.engines import Diff, EngineFile
    from poise.live.discovery.watch import watch_file

    async def main() -> None:
        file = tmp_path / "engines.yaml"
        file.write_text("[{name: a, url: 'http://127.0.0.1:1'}]")
        watched, seen = EngineFile(file), list[Diff]()
        task = asyncio.get_running_loop().create_task(watch_file(watched, seen.append, 0.001))
        file.write_text("[{name: a, url: 'ftp://127.0.0.1:1'}]")
        await until(lambda: caplog.records)
        file.write_text("[{name: a, url: 'http://127.0.0.1:12'}]")
        await until(lambda: seen)
        task.cancel()
        (messages,) = [each.getMessage() for each in caplog.records]
        assert messages.startswith(f"a watched file is not taken: {file}:1: ") and "stay" in messages
        assert len(seen) == 1 and seen[0].changed

    run(main())


def test_the_round_robin_of_before_is_gone(tmp_path: Path) -> None:
    """`/config` is read over HTTP as well, from the gateway that was changed."""

    async def main() -> None:
        async with served(tmp_path, f"{ENGINES}policies: {{router: round_robin}}\n") as here:
            admin = Admin(here.gateway)
            port = await admin.start()
            assert isinstance(here.gateway.control.router, RoundRobin)
            here.again(f"{ENGINES}tries: 9\n")
            from tests.live.admin.house import ask

            found = (await ask(port, "/config")).json
            assert found["policies"]["router"]["name"] == "PrefixCache" and found["needs_restart"] == ["tries"]
            assert (await ask(port, "/metrics")).status == 200
            await admin.stop()

    run(main())
