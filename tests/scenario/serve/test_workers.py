"""`poise serve --workers N` as its users run it: several processes on one port, that die, restart and stop together."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.live.http.loop import run
from poise.scenario.serve.build import plan
from poise.scenario.serve.load import load_gateway
from tests.live.gateway.live import Answer
from tests.patience import PATIENCE_S
from tests.scenario.serve.test_process import Serving, engines, flags, serving, start

LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the processes of Linux")


def workers_of(process: int) -> list[int]:
    """The processes that another has started."""
    return sorted(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


async def both_serve(gateway: Serving) -> None:
    """Both workers have found both engines and one another."""
    await gateway.logged(b"joined", 4)
    await gateway.logged(b"reporting to gateway", 2)


async def statuses(gateway: Serving, count: int, key: str = "k") -> list[int]:
    """The answers to so many requests, one after the other, each on a connection of its own."""
    found = []
    for _ in range(count):
        answer = gateway.ask(
            stream=False, headers=[(b"authorization", f"Bearer {key}".encode()), (b"connection", b"close")]
        )
        found.append((await answer.wait()).status)
    return found


def test_two_workers_serve_one_port_and_stop_together() -> None:
    async def main() -> None:
        async with engines(2, speed=1.0) as made, serving(*flags(made), "--workers", "2") as gateway:
            await both_serve(gateway)
            answers = [gateway.ask(tokens=60) for _ in range(12)]
            for answer in answers:
                await answer.began.wait()
            gateway.process.send_signal(signal.SIGTERM)
            await gateway.logged(b"stopping", 2)
            assert all([(await answer.wait()).whole for answer in answers])
            code, log = await gateway.ends()
            assert code == 0 and "Traceback" not in log

    run(main())


@LINUX
def test_a_worker_that_is_killed_costs_its_own_requests_alone_and_comes_back() -> None:
    async def main() -> None:
        async with engines(2, speed=1.0) as made, serving(*flags(made), "--workers", "2") as gateway:
            await both_serve(gateway)
            answers: list[Answer] = [gateway.ask(tokens=80) for _ in range(24)]
            for answer in answers:
                await answer.began.wait()
            victim, survivor = workers_of(gateway.process.pid)
            os.kill(victim, signal.SIGKILL)
            await gateway.logged(b"started again", 1)
            for answer in answers:
                await answer.wait()
            whole = sum(answer.whole for answer in answers)
            assert 0 < whole < len(answers), "the system spread them over both"
            assert all(answer.whole or answer.why is not None for answer in answers), "cut, and no half answer passes"
            await gateway.logged(b"reporting to gateway", 4)
            assert survivor in workers_of(gateway.process.pid) and len(workers_of(gateway.process.pid)) == 2
            assert all([(await gateway.ask().wait()).whole for _ in range(12)])
            gateway.process.send_signal(signal.SIGTERM)
            code, _ = await gateway.ends()
            assert code == 0

    run(main())


def test_limits_hold_over_both_workers_and_a_signal_reloads_both(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text("- {name: one, key: k, requests_per_minute: 8}\n")

    async def main() -> None:
        async with engines(2) as made:
            options = ["--set", f"tenants.file={keys}", "--record", str(tmp_path / "day.jsonl")]
            async with serving(*flags(made), "--workers", "2", *options) as gateway:
                await both_serve(gateway)
                answered = await statuses(gateway, 20)
                assert 8 <= answered.count(200) <= 9 and answered.count(429) >= 11, answered
                keys.write_text("- {name: one, key: other}\n")
                gateway.process.send_signal(signal.SIGHUP)
                await gateway.logged(b"read again", 2)
                assert await statuses(gateway, 8) == [401] * 8
                assert await statuses(gateway, 8, "other") == [200] * 8

    run(main())
    assert {file.name[:11] for file in tmp_path.glob("day*")} == {"day-worker0", "day-worker1"}


@LINUX
def test_workers_end_when_the_process_that_started_them_is_killed() -> None:
    async def main() -> None:
        async with engines(1) as made, serving(*flags(made), "--workers", "2") as gateway:
            await gateway.logged(b"joined", 2)
            workers = workers_of(gateway.process.pid)
            gateway.process.kill()
            async with asyncio.timeout(PATIENCE_S):
                while any(Path(f"/proc/{each}").exists() for each in workers):
                    await asyncio.sleep(0.01)

    run(main())


def test_a_port_that_is_taken_is_one_line() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            arguments = [
                "--engine",
                "http://127.0.0.1:9",
                "--workers",
                "2",
                "--admin-port",
                "null",
                "--port",
                str(port),
            ]
            process = await start(*arguments)
            out, error = await process.communicate()
        assert process.returncode == 2 and not out
        assert b"cannot be listened on" in error and b"Traceback" not in error and error.count(b"\n") == 1, error

    run(main())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("workers: 0", "workers"),
        ("workers: 2\nbelief: {kv_bind: 'tcp://127.0.0.1:5557'}", "there are several workers"),
        ("workers: 2\nenvoy: {port: 9002}", "behind a proxy"),
        ("workers: 2\npools: [{max_replicas: 4}]\npolicies: {router: least_requests, scaler: hpa}", "a scaler"),
        ("share: {peers: ['10.0.0.2:9100']}", "share.listen: is missing"),
        ("share: {listen: '0.0.0.0:9100'}", "share.key_env: is missing"),
        ("share: {listen: '127.0.0.1:9100', key_env: POISE_NO_SUCH_KEY}", "has no POISE_NO_SUCH_KEY"),
        ("share: {listen: '9100'}", "is not an address"),
        ("share: {listen: '127.0.0.1:9100', peers: ['169.254.169.254:80']}", "link-local"),
        ("workers: 2\nshare: {listen: '127.0.0.1:9100', dns: 'gateways:9100'}", "share.dns"),
    ],
)
def test_what_cannot_be_shared_is_one_line(fields: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [http://127.0.0.1:9000]\n{fields}\n")
    with pytest.raises(UserError, match=reason) as raised:
        plan(load_gateway(file))
    assert "\n" not in str(raised.value)
