"""Clients as attackers: what is wrong is refused clearly, nothing crashes, and what is kept of them is bounded.

While malformed requests, header floods, slow clients, refused bodies and unknown keys come from another process as fast
as it can send them, the median time to first token of a well-behaved client may grow by at most `SHARE` times and
`NOISE_S`; half of a core is the attacker's own here, so the share of the gateway alone is smaller.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import socket
import statistics
import subprocess
import sys
import tracemalloc
from itertools import product
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.live.discovery.address import engine as place
from poise.live.gateway.api import Api
from poise.live.gateway.settings import Settings
from poise.live.http import loop
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits, PoolLimits
from poise.live.requests.paths import READERS
from poise.live.requests.tenants import Tenants, parse
from poise.live.requests.text_prefix import Pieces
from tests.depth import examples
from tests.live.gateway.attack import post, raw, read_all
from tests.live.gateway.fakes import Bench, Wire
from tests.live.gateway.live import MODEL, Live
from tests.live.warp import run
from tests.patience import PATIENCE_S

SHARE, NOISE_S = 4.0, 0.05
TENANTS = "[{name: gold, key: sk-gold}]"
TURN = {"role": "user", "content": "x"}
BODY = json.dumps(
    {"model": MODEL, "prompt": "x", "input": "x", "messages": [TURN], "max_tokens": 2, "query": "x", "documents": ["y"],
     "text_1": "x", "text_2": "y"}
).encode()  # fmt: skip
FORM = (
    b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n--b\r\n'
    b'content-disposition: form-data; name="file"; filename="a.wav"\r\n\r\nsound\r\n--b--\r\n'
) % MODEL.encode()
FORMS = (b"/v1/audio/transcriptions", b"/v1/audio/translations")


class Front:
    """A desk on a bench, without sockets."""

    def __init__(self, keys: str = "") -> None:
        self.bench = Bench()
        tenants = Tenants(parse(keys, "keys")) if keys else None
        self.api = Api(self.bench.world, Pieces(), tenants=tenants)

    def send(
        self, method: str, target: bytes, body: bytes = b"", headers: list[tuple[bytes, bytes]] | None = None
    ) -> Wire:
        """Whatever comes of a request, an engine answers what reaches it."""
        wire = Wire()
        exchange = Exchange(method, target, headers or [], body, self.bench.now)
        exchange.join(wire, "127.0.0.1")
        self.bench.now += 1
        self.api.receive(exchange)
        for call in self.bench.calls:
            call.answer()
        assert wire.ended
        return wire

    @property
    def targets(self) -> set[bytes]:
        """What engines were asked for."""
        return {call.target for number in range(2) for call in self.bench.pool(number).calls}


# Bodies --------------------------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, -1, 2**31, 2**63, -(2**63), 2**64, 10**40, 1e308, 1.5, float("nan"), float("inf"), True])
ODD = st.text(st.characters(), max_size=20) | st.sampled_from(["\0", "\ud800", "\U0010ffff", "é" * 300, "\r\nx: y"])
LEAVES = st.none() | st.booleans() | NUMBERS | ODD
JUNK = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD, inner, max_size=4))
GOOD: dict[str, Any] = {
    "model": st.sampled_from([MODEL, "m"]), "prompt": st.text(max_size=50) | st.lists(st.integers(0, 2**32)),
    "input": st.text(max_size=50), "stream": st.booleans(), "max_tokens": st.integers(0, 99),
    "messages": st.lists(st.fixed_dictionaries({"role": st.text(), "content": JUNK}), max_size=3),
    "priority": st.integers(), "n": st.integers(), "user": ODD, "prompt_cache_key": ODD, "cache_salt": ODD,
    "previous_response_id": ODD, "tools": JUNK, "stream_options": JUNK, "max_completion_tokens": NUMBERS,
    "kv_transfer_params": JUNK, "instructions": ODD, "system": JUNK, "query": JUNK, "documents": JUNK, "text_1": JUNK,
    "text_2": JUNK, "metadata": JUNK, "data": JUNK,
}  # fmt: skip
BODIES = st.fixed_dictionaries({}, optional={name: good | JUNK for name, good in GOOD.items()})
TEXTS = (
    BODIES.map(lambda body: json.dumps(body).encode())
    | st.binary(max_size=200)
    | JUNK.map(lambda junk: json.dumps(junk).encode())
)


@pytest.mark.deep
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(READERS)), st.lists(TEXTS, min_size=1, max_size=5))
def test_any_body_is_taken_or_refused_in_openai_words(target: bytes, bodies: list[bytes]) -> None:
    front = Front()
    for body in bodies:
        wire = front.send("POST", target, body)
        assert wire.status in (200, 400, 404), wire.sent
        if wire.status != 200:
            error = json.loads(wire.body)["error"]
            assert error["message"] and error["type"] and "Traceback" not in error["message"]
    front.bench.check_balance()
    assert front.targets <= {target}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model":"m","prompt":"x","priority":' + b"9" * 400 + b"}", 400),
        (b'{"model":"m","prompt":"x","max_tokens":1e400}', 400),
        (b'{"model":"m","prompt":"x","max_tokens":NaN}', 400),
        (b'{"model":"m","prompt":"\\ud800"}', 400),
        (b'{"model":"m","prompt":"x","extra":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 400),
        (b'{"model":"a","model":"b","prompt":"x"}', 200),
        (b'{"model":"m","prompt":["a","b",["c"]]}', 400),
        (b'{"model":"m","prompt":["a","b"]}', 200),
        (b'{"model":"m","prompt":[[1,2],[3]]}', 200),
        (b'{"model":"","prompt":"x"}', 200),
        (b"\xef\xbb\xbf{}", 400),
        (b"\xff\xfe", 400),
        (b"", 400),
    ],
)  # fmt: skip
def test_bodies_made_by_hand(body: bytes, status: int) -> None:
    front = Front()
    assert front.send("POST", b"/v1/completions", body).status == status
    front.bench.check_balance()


# Paths and methods ---------------------------------------------------------------------------------------------------

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "PURGE")
PLAIN = ("/health", "/healthz", "/ready", "/readyz", "/v1/models")
TRICKS = (
    b"//v1/completions", b"/v1//completions", b"/v1/../v1/completions", b"/v1/%2e%2e/metrics", b"/./v1/completions",
    b"/v1/completions/", b"/v1/completions/..", b"/v1/completions%00", b"/v1/completions%0d%0ax:y", b"*", b"/",
    b"/metrics", b"/fault", b"/admin", b"/v1/completions;x", b"/V1/COMPLETIONS", b"http://169.254.169.254/latest",
    b"/%ff%fe", b"/" + b"a" * 20_000,
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_path_has_its_method(method: str) -> None:
    front = Front()
    for target in READERS:
        body = FORM if target in FORMS else BODY
        assert front.send(method, target, body).status == (200 if method == "POST" else 405), target
    for path in PLAIN:
        status = front.send(method, path.encode()).status
        assert status == (200 if method in ("GET", "HEAD") else 405), path
    for target in TRICKS:
        assert front.send(method, target, BODY).status == 404, target


def test_tricks_with_targets_reach_no_engine() -> None:
    front = Front()
    for method, target in product(("GET", "POST"), TRICKS):
        front.send(method, target, BODY)
    assert not front.targets


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"http://169.254.169.254/v1/completions", b"/v1/completions"),
        (b"https://user:key@evil.example:1/v1/completions?a=b", b"/v1/completions?a=b"),
        (b"/v1/%63ompletions", b"/v1/completions"),
        (b"/v1%2fcompletions?x=%2e%2e", b"/v1/completions?x=%2e%2e"),
        (b"/v1/completions?x=../..", b"/v1/completions?x=../.."),
    ],
)
def test_engines_see_one_spelling_of_a_path(target: bytes, sent: bytes) -> None:
    front = Front()
    assert front.send("POST", target, BODY).status == 200
    assert front.targets == {sent}


# Keys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        [], [(b"authorization", b"Bearer")], [(b"authorization", b"Bearer sk-no")], [(b"authorization", b"\xff" * 99)],
        [(b"authorization", b"Bearer " + b"k" * 30_000)], [(b"x-api-key", b"sk-gol")], [(b"x-tenant", b"gold")],
        [(b"authorization", b"Basic c2stZ29sZA==")],
    ],
)  # fmt: skip
def test_unknown_keys_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    front = Front(TENANTS)
    wire = front.send("POST", b"/v1/completions", BODY, headers)
    assert wire.status == 401 and b"www-authenticate: Bearer" in wire.sent
    assert not front.targets and b"sk-" not in wire.sent


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key"])
def test_a_tenants_key_stays_at_the_gateway(name: bytes) -> None:
    front = Front(TENANTS)
    value = b"Bearer sk-gold" if name == b"authorization" else b"sk-gold"
    assert front.send("POST", b"/v1/completions", BODY, [(name, value), (b"x-other", b"y")]).status == 200
    (call,) = front.bench.pool(0).calls + front.bench.pool(1).calls
    assert call.headers == [(b"x-other", b"y")]


# Names that clients make up ------------------------------------------------------------------------------------------


def test_made_up_names_are_kept_in_bounds() -> None:
    """400 MB of sessions, salts, models, users and responses leave next to nothing behind."""
    front = Front()
    tracemalloc.start()
    try:
        for number in range(200):
            name = f"{number}-" + "x" * 500_000
            for field in ("prompt_cache_key", "cache_salt", "user", "previous_response_id"):
                body = {"model": MODEL, "prompt": "x", field: name}
                assert front.send("POST", b"/v1/responses", json.dumps(body).encode()).status == 200
            front.send("POST", b"/v1/completions", json.dumps({"model": name, "prompt": "x"}).encode())
            for each in front.bench.pool(0), front.bench.pool(1):
                each.calls.clear()
            front.bench.world.keep = None
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 20_000_000, kept


def test_models_on_trust_are_bounded_and_no_good_one_is_locked_out() -> None:
    """Engines that do not tell their models: after a thousand made-up names a new one still reaches them."""
    front = Front()
    for number in range(3000):
        body = json.dumps({"model": f"made-up-{number}", "prompt": "x"}).encode()
        assert front.send("POST", b"/v1/completions", body).status == 200
    assert len(front.api.models) == 1000
    listed = json.loads(front.send("GET", b"/v1/models").body)["data"]
    assert listed == [], "what clients make up is shown to nobody"


def test_tenants_that_a_header_brings_up_are_bounded() -> None:
    tenants = Tenants([], trust_header=True)
    found = {getattr(tenants.who(None, b"tenant-%d" % number), "id", -1) for number in range(30_000)}
    assert found == set(range(len(found))) and len(found) <= 10_001
    again = tenants.who(None, b"tenant-7")
    assert not isinstance(again, tuple) or getattr(again, "name", "") == "tenant-7"
    assert getattr(tenants.who(None, b"x" * 5000), "name", "") == "default"


# Engines that are none -----------------------------------------------------------------------------------------------

METADATA = (
    "http://169.254.169.254/latest", "http://[fe80::1]:80", "http://metadata.google.internal", "http://2852039166",
    "http://0xa9fea9fe", "http://[::ffff:169.254.169.254]", "http://100.100.100.200", "http://0.0.0.0:80",
    "http://metadata.google.internal.", "http://METADATA.google.internal", "http://169.254.169.254.:80",
    "http://[fd00:ec2::254]", "http://224.0.0.1", "http://127.1", "http://0177.0.0.1", "file:///etc/passwd",
    "gopher://127.0.0.1", "http://a b", "http://user:key@127.0.0.1",
)  # fmt: skip


@pytest.mark.parametrize("url", METADATA)
def test_no_engine_is_where_clouds_keep_their_secrets(url: str) -> None:
    if url in ("http://127.1", "http://0177.0.0.1"):
        with pytest.raises(UserError, match="spells an address in an unusual way"):
            place(url, "file:1")
        return
    with pytest.raises(UserError, match=r"^file:1: "):
        place(url, "file:1")


# Malformed HTTP, through the whole gateway ---------------------------------------------------------------------------

GET = b"GET /health HTTP/1.1\r\nhost: x\r\n"
MALFORMED = {
    "nothing": (b"", 0),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"host: y\r\n\r\n", 400),
    "length and chunks": (post(b"", headers=[b"transfer-encoding: chunked"]), 400),
    "two lengths": (post(b"{}", headers=[b"content-length: 3"]), 400),
    "a length with a sign": (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: +2\r\n\r\n{}", 400),
    "a folded header": (GET + b"x: a\r\n b\r\n\r\n", 400),
    "a bare return": (GET + b"x: a\rb\r\n\r\n", 400),
    "a zero": (GET + b"x: a\0b\r\n\r\n", 400),
    "a space before the colon": (GET + b"x : a\r\n\r\n", 400),
    "a space in the target": (b"GET /hea lth HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "an unknown method": (b"STEAL /health HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    "a tunnel": (b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nhost: x\r\n\r\n", 501),
    "another version": (b"GET /health HTTP/3.0\r\nhost: x\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "an expectation": (GET + b"expect: gifts\r\n\r\n", 417),
    "a coding": (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n", 400),
    "many headers": (GET + b"".join(b"x-%d: y\r\n" % each for each in range(1000)) + b"\r\n", 431),
    "a long header": (GET + b"x: " + b"y" * 200_000 + b"\r\n\r\n", 431),
    "a long target": (b"GET /" + b"y" * 200_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 431),
    "a large body": (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 104857600\r\n\r\n", 413),
    "a negative chunk": (
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n", 400,
    ),
    "any server": (b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 404),
}  # fmt: skip


def test_malformed_http_is_refused_and_hurts_no_other_request() -> None:
    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with Live(1) as live:
            for name, (data, status) in MALFORMED.items():
                received = await raw(live.port, data)
                found = int(received.split(b" ", 2)[1]) if received else 0
                assert found == status or (status == 400 and found in (501, 505)), (name, received)
                assert b"Traceback" not in received
                if status >= 400:
                    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["message"], name
            assert (await live.ask().wait()).whole
            await live.check_balance()
            assert live.gateway.server.connections <= 1 and not problems, problems

    run(main())


@settings(max_examples=15, deadline=None)
@given(st.lists(TEXTS | st.binary(max_size=300), min_size=20, max_size=20), st.randoms(use_true_random=False))
def test_fuzzed_bytes_through_sockets(texts: list[bytes], draw: Any) -> None:
    """Whole requests with odd bodies, and requests with bytes knocked out, put in or cut off."""

    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with Live(1, settings=Settings(held_s=1, clients=Limits(head_s=0.2, body_s=0.2, idle_s=0.2))) as live:
            for text in texts:
                data = bytearray(post(text, draw.choice(sorted(READERS))))
                if draw.random() < 0.6:
                    at = draw.randrange(len(data))
                    data[at : at + draw.randrange(4)] = bytes(draw.randrange(256) for _ in range(draw.randrange(4)))
                received = await raw(live.port, bytes(data))
                assert not received or received.startswith(b"HTTP/1.1 "), received
                assert b"Traceback" not in received
            assert (await live.ask().wait()).whole
            await live.check_balance()
            assert not problems, problems

    run(main())


# Much of everything --------------------------------------------------------------------------------------------------


async def pour(port: int, head: bytes, piece: bytes, most: int) -> tuple[int, bytes]:
    """Send a head and the same piece up to `most` bytes; how many were taken, and what was said."""
    loop = asyncio.get_running_loop()
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setblocking(False)
    sent, data = 0, b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await loop.sock_sendall(sock, head)
            while sent < most:
                await loop.sock_sendall(sock, piece)
                sent += len(piece)
            data = await loop.sock_recv(sock, 65_536)
    except ConnectionError:
        with contextlib.suppress(ConnectionError):
            data = await loop.sock_recv(sock, 65_536)
    finally:
        sock.close()
    return sent, data


@pytest.mark.parametrize("chunked", [True, False])
def test_bodies_of_100_mb_are_refused_early_and_not_kept(chunked: bool) -> None:
    """Eight at once: no more is read of each than the limit and what lingers behind it."""
    framing = b"transfer-encoding: chunked" if chunked else b"content-length: 104857600"
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n%b\r\n\r\n" % framing
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if chunked else b"x" * 65_536

    async def main() -> int:
        async with Live(1, settings=Settings(clients=Limits(body_bytes=1 << 20))) as live:
            tracemalloc.start()
            poured = await asyncio.gather(*(pour(live.port, head, piece, 100 << 20) for _ in range(8)))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            for sent, expected in poured:
                assert sent < 32 << 20, "most of it was never taken"
                assert not expected or expected.startswith(b"HTTP/1.1 413 ")
            assert live.gateway.server.causes["body"] == 8
            assert (await live.ask().wait()).whole
            await live.check_balance()
            return peak

    assert run(main()) < 48 << 20


def test_slow_clients_are_let_go() -> None:
    """A hundred that send a byte now and then get 408 in time; who asks as one should is served meanwhile."""
    limits = Settings(clients=Limits(head_s=0.4, body_s=0.4, idle_s=0.4, read_s=0.4))

    async def drip(port: int, start: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        reading = asyncio.ensure_future(read_all(reader))
        while not reading.done():
            if not writer.is_closing():
                writer.write(b"x")
            await asyncio.wait([reading], timeout=0.05)
        writer.close()
        return reading.result()

    async def main() -> None:
        async with Live(1, settings=limits) as live:
            heads = [drip(live.port, b"POST /v1/completions HTTP/1.1\r\nx: ") for _ in range(50)]
            bodies = [
                drip(live.port, b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n")
                for _ in range(50)
            ]
            async with asyncio.timeout(PATIENCE_S):
                slow = asyncio.gather(*heads, *bodies)
                assert (await live.ask().wait()).whole
                assert all(expected.startswith(b"HTTP/1.1 408 ") for expected in await slow)
            assert live.gateway.server.causes["head_timeout"] == live.gateway.server.causes["body_timeout"] == 50
            await live.check_balance()

    run(main())


CROWD = """
import resource, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
for each in held[: count // 2]:
    each.sendall(b"POST /v1/completions HTTP/1.1\\r\\nhost: x\\r\\n")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_ten_thousand_idle_connections() -> None:
    """Half have sent nothing, half the beginning of a head: others are served, and all memory comes back."""
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 1000:
        pytest.skip(f"the system allows {hard} open files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def main() -> None:
        settings = Settings(clients=Limits(head_s=120, idle_s=120))
        async with Live(1, settings=settings) as live:
            tracemalloc.start()
            crowd = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CROWD, str(live.port), str(count),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert crowd.stdout is not None and crowd.stdin is not None
            async with asyncio.timeout(2 * PATIENCE_S):
                assert await crowd.stdout.readline() == b"open\n"
                await live.until(lambda: live.gateway.server.connections >= count)
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert kept / count < 8_192, f"{kept / count:.0f} bytes a connection"
            assert all([(await live.ask().wait()).whole for _ in range(20)])
            crowd.stdin.close()
            await crowd.wait()
            await live.until(lambda: live.gateway.server.connections <= 2)
            await live.check_balance()

    try:
        loop.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


ABUSER = """
import socket, sys, itertools
port = int(sys.argv[1])
def post(body, *headers):
    head = b"POST /v1/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: %d\\r\\n" % len(body)
    return head + b"".join(each + b"\\r\\n" for each in headers) + b"\\r\\n" + body
wanted = [
    b"\\x16\\x03\\x01" * 50,
    b"GET / HTTP/1.1\\r\\n" + b"".join(b"x-%d: y\\r\\n" % each for each in range(500)) + b"\\r\\n",
    b"POST /v1/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 104857600\\r\\n\\r\\n" + b"x" * 500_000,
    post(b'{"model":"m","prompt":' + b"[" * 50_000),
    post(b'{"model":"nobody","prompt":"x"}'),
    post(b'{"model":"m","prompt":"' + b"x" * 200_000 + b'","priority":1e9}'),
    post(b"{}", b"authorization: Bearer sk-wrong"),
    b"CONNECT 169.254.169.254:80 HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n",
]
slow = []
print("begun", flush=True)
for data in itertools.cycle(wanted):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as sock:
            sock.sendall(data)
            sock.recv(4096)
        if len(slow) < 300:
            slow.append(socket.create_connection(("127.0.0.1", port), 5))
            slow[-1].sendall(b"POST /v1/completions HTTP/1.1\\r\\nx: ")
    except OSError:
        pass
"""


async def ttft(live: Live, requests: int = 60) -> float:
    """The median of a well-behaved client, one request after another."""
    found = []
    for number in range(requests):
        began = monotonic()
        answer = live.ask(f"Question {number}", 2)
        await answer.began.wait()
        found.append(monotonic() - began)
        assert (await answer.wait()).whole
    return statistics.median(found)


@pytest.mark.slow
def test_a_well_behaved_client_hardly_notices() -> None:
    async def main() -> None:
        async with Live(2, settings=Settings(engines=PoolLimits(head_s=30, stall_s=30))) as live:
            quiet = await ttft(live)
            abuser = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ABUSER, str(live.port), stdout=subprocess.PIPE
            )
            try:
                assert abuser.stdout is not None
                assert await abuser.stdout.readline() == b"begun\n"
                before = live.gateway.server.accepted
                abused = await ttft(live)
                for _ in range(4):  # others' work may halt a round, but a fault of ours is there each time
                    if abused < SHARE * quiet + NOISE_S:
                        break
                    abused = await ttft(live)
                attacks = live.gateway.server.accepted - before
            finally:
                abuser.kill()
                await abuser.communicate()
            print(f"\nTTFT p50 {1e3 * quiet:.2f} ms alone, {1e3 * abused:.2f} ms among {attacks} abusive connections")
            assert attacks > 20
            assert abused < SHARE * quiet + NOISE_S
            await live.until(lambda: not live.gateway.world.proxied_requests)

    loop.run(main())
