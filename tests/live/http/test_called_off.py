"""Requests called off while their connection is being opened leave nothing behind, at whatever moment it happens."""

from __future__ import annotations

import asyncio

from poise.live.http.call import Address, Failure
from poise.live.http.limits import PoolLimits
from poise.live.http.loop import run
from poise.live.http.pool import Pool


class Silent:
    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        pass

    def data(self, data: bytes) -> None:
        pass

    def end(self) -> None:
        pass

    def failed(self, why: Failure) -> None:
        raise AssertionError("who called off hears nothing more")


def test_a_pool_closes_whenever_its_requests_were_called_off() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        for turns in range(60):
            pool = Pool(address, PoolLimits(idle_s=60.0))
            calls = [pool.send(b"GET", b"/", [], b"", Silent()) for _ in range(5)]
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            for _ in range(turns // 12):
                await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await pool.close()
            assert not pool.connections
        server.close()
        await server.wait_closed()

    run(main())
