"""`poise serve` as its users run it: a process, its signals, its files, its exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from poise.live.emulator.emulated import Emulated
from poise.live.emulator.options import Options
from poise.live.http.call import Address
from poise.live.http.limits import PoolLimits
from poise.live.http.loop import run
from poise.live.http.pool import Pool
from poise.policies import Policies
from tests.live.gateway.live import MODEL, Answer, Live
from tests.patience import PATIENCE_S

HERE = Path(__file__).parent


class Serving:
    """A gateway's process, once it listens, and a client of it."""

    def __init__(self, process: asyncio.subprocess.Process, pool: Pool) -> None:
        self.process = process
        self.pool = pool
        self.log = b""

    ask = Live.ask
    send = Live.send

    async def logged(self, word: bytes, times: int = 1) -> None:
        """Read its log until a word is there so often."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while self.log.count(word) < times:
                line = await self.process.stderr.readline()
                assert line, self.log.decode()
                self.log += line

    async def ends(self) -> tuple[int, str]:
        """Its exit code, and all that it logged."""
        async with asyncio.timeout(PATIENCE_S):
            _, rest = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, (self.log + rest).decode()


async def start(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "poise", "serve", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip


@asynccontextmanager
async def serving(*arguments: str, tls: ssl.SSLContext | None = None, **environment: str) -> AsyncIterator[Serving]:
    process = await start(*arguments, **environment)
    assert process.stdout is not None and process.stderr is not None
    pool = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stdout.readline()).decode()
        assert "serving on http" in line, line + (await process.stderr.read()).decode()
        port = int(line.partition("/v1")[0].rpartition(":")[2])
        pool = Pool(Address("127.0.0.1", port, tls is not None), PoolLimits(head_s=0, stall_s=0), tls)
        yield Serving(process, pool)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        if pool is not None:
            await pool.close()


@asynccontextmanager
async def engines(count: int, speed: float = 20.0, **given: object) -> AsyncIterator[list[Emulated]]:
    options = Options(MODEL, port=0, speed=speed, **given)  # type: ignore[arg-type]
    made = [Emulated(options, Policies()) for _ in range(count)]
    for engine in made:
        await engine.start()
    try:
        yield made
    finally:
        for engine in made:
            await engine.stop()


def flags(made: list[Emulated]) -> list[str]:
    return ["--port", "0", "--admin-port", "null", *(word for each in made for word in ("--engine", each.url))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_streams_end(number: signal.Signals) -> None:
    async def main() -> None:
        async with engines(2, speed=1.0) as made, serving(*flags(made)) as gateway:
            await gateway.logged(b"joined", 2)
            answers = [gateway.ask(tokens=60) for _ in range(4)]
            for answer in answers:
                await answer.began.wait()
            gateway.process.send_signal(number)
            await gateway.logged(b"stopping")
            assert all([(await answer.wait()).whole for answer in answers])
            code, log = await gateway.ends()
            assert code == 0 and "Traceback" not in log

    run(main())


def test_a_second_of_patience_is_kept() -> None:
    """Streams that last longer than `drain_s` are told, and that is no error."""

    async def main() -> None:
        async with engines(1, speed=0.05) as made, serving(*flags(made), "--set", "limits.drain_s=0.2") as gateway:
            await gateway.logged(b"joined")
            answer = gateway.ask(tokens=2000)
            await answer.began.wait()
            gateway.process.terminate()
            assert not (await answer.wait()).whole and answer.error
            code, log = await gateway.ends()
            assert code == 0 and "did not end in time: 1" in log and "Traceback" not in log

    run(main())


def test_engines_change_while_streams_run(tmp_path: Path) -> None:
    """SIGHUP reads the gateway file again, a watched file is seen to change; streams of engines that go end whole."""

    async def main() -> None:
        async with engines(3, speed=1.0) as made:
            file, watched = tmp_path / "gateway.yaml", tmp_path / "engines.yaml"
            rest = "\nlisten: {port: 0}\nadmin: {port: null}\ndiscover: {file: engines.yaml, period_s: 0.05}\n"
            file.write_text(f"engines: [{made[0].url}]{rest}")
            watched.write_text(f"- {{name: watched, url: {made[1].url}}}\n")
            async with serving(str(file)) as gateway:
                await gateway.logged(b" joined", 2)
                streams = [gateway.ask(tokens=80) for _ in range(6)]
                for stream in streams:
                    await stream.began.wait()
                file.write_text(f"engines: [{made[2].url}]{rest}")
                gateway.process.send_signal(signal.SIGHUP)
                await gateway.logged(b"was read again")
                await gateway.logged(b" joined", 3)
                watched.write_text(f"- {{name: another, url: {made[0].url}}}\n")
                await gateway.logged(b" joined", 4)
                file.write_text("engines: [ftp://nowhere]\n")
                gateway.process.send_signal(signal.SIGHUP)
                await gateway.logged(b"is not taken")
                assert b"gateway.yaml:1: engines.0.url: " in gateway.log
                assert all([(await stream.wait()).whole for stream in streams])
                assert all([(await gateway.ask(tokens=2).wait()).whole for _ in range(4)])
                gateway.process.terminate()
                code, log = await gateway.ends()
                assert code == 0 and "Traceback" not in log

    run(main())


def test_tls_and_secrets_from_the_environment(tmp_path: Path) -> None:
    """Clients speak TLS; the engine's key is the gateway's, never the tenant's; neither is ever logged."""

    async def main() -> None:
        async with engines(1, api_key=("sk-engine-secret",)) as made:
            file = tmp_path / "gateway.yaml"
            (tmp_path / "keys.yaml").write_text("[{name: gold, key: sk-tenant-secret}]")
            file.write_text(
                f"listen: {{port: 0, tls_cert: {HERE / 'cert.pem'}, tls_key: {HERE / 'key.pem'}}}\n"
                f"admin: {{port: null}}\nlog: {{level: debug, access: true}}\ntenants: {{file: keys.yaml}}\n"
                f"engines: [{{url: '{made[0].url}', api_key_env: ENGINE_KEY}}]\n"
            )
            trust = ssl.create_default_context(cafile=str(HERE / "cert.pem"))
            async with serving(str(file), tls=trust, ENGINE_KEY="sk-engine-secret") as gateway:
                await gateway.logged(b"joined")
                key = [(b"authorization", b"Bearer sk-tenant-secret")]
                assert (await gateway.ask(headers=key).wait()).whole
                assert (await gateway.ask(stream=False, headers=key).wait()).whole
                assert (
                    await gateway.ask(headers=[(b"authorization", b"Bearer sk-engine-secret")]).wait()
                ).status == 401
                plain = Pool(Address("127.0.0.1", gateway.pool.address.port), PoolLimits(head_s=5))
                refused = Answer()
                plain.send(b"GET", b"/health", [], b"", refused)
                assert (await refused.wait()).why is not None, "what is not TLS gets no answer"
                await plain.close()
                assert (await gateway.ask(headers=key).wait()).whole
                gateway.process.terminate()
                code, log = await gateway.ends()
                assert code == 0 and "secret" not in log and "Traceback" not in log

    run(main())


async def refusal(*arguments: str) -> str:
    """What a start that fails says: one line, exit code 2, nothing on standard output."""
    process = await start(*arguments)
    async with asyncio.timeout(PATIENCE_S):
        out, printed = await process.communicate()
    assert process.returncode == 2, (process.returncode, printed)
    assert not out and printed.count(b"\n") == 1, (out, printed)
    return printed.decode()


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        message = run(refusal("--engine", "http://127.0.0.1:1", "--port", port, "--admin-port", "null"))
        assert (
            f"--port {port}: listen.port: 127.0.0.1:{port} cannot be listened on" in message
            and "choose another" in message
        )
        message = run(refusal("--engine", "http://127.0.0.1:1", "--port", "0", "--admin-port", port))
        assert f"admin.port: 127.0.0.1:{port} cannot be listened on" in message


def test_without_engines_nothing_is_served() -> None:
    assert "engines: there are none; give --engine URL" in run(refusal("--port", "0"))
