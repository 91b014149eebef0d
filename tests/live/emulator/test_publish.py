"""KV events over real ZMQ sockets: vLLM's frames, a gap, and its replay."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from poise.live.emulator.events import AllBlocksCleared, BlockRemoved, BlockStored, Ledger, Stream
from poise.live.emulator.identity import chain
from poise.live.emulator.publish import KvEvents
from poise.live.emulator.tokens import converse
from poise.live.http import loop
from tests.live.emulator.clients import CHAT, an_engine, ask, chat, until
from tests.patience import PATIENCE_S

EVENTS = KvEvents(
    True, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", topic="kv@1", buffer_steps=50
)


def unpack(payload: bytes) -> Any:
    return msgspec.msgpack.decode(payload)


def test_events_are_tagged_maps_in_an_array() -> None:
    """The fields that were seen from vLLM 0.32."""
    stored = BlockStored([1, 2], None, [5, 6, 7, 8], 2)
    frames = Stream("topic").frames([stored, BlockRemoved([3]), AllBlocksCleared()], 1.5)
    assert frames[:2] == (b"topic", bytes(8))
    assert unpack(frames[2]) == [
        1.5,
        [
            {
                "type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": None, "token_ids": [5, 6, 7, 8],
                "block_size": 2, "lora_id": None, "medium": "GPU", "lora_name": None, "extra_keys": None,
                "group_idx": 0, "kv_cache_spec_kind": "full_attention",
            },
            {"type": "BlockRemoved", "block_hashes": [3], "medium": "GPU", "group_idx": 0},
            {"type": "AllBlocksCleared"},
        ],
        0,
    ]  # fmt: skip


def test_a_replay_is_what_is_kept_from_a_number_on() -> None:
    stream = Stream(keep=3)
    sent = [stream.frames([AllBlocksCleared()], float(number))[1:] for number in range(5)]
    answers = stream.replay([b"client", b"", (3).to_bytes(8, "big")])
    assert answers[:-1] == [(b"client", b"", *each) for each in sent[3:]]
    assert answers[-1] == (b"client", b"", b"\xff" * 8, b"")
    assert len(stream.replay([b"client", b"", bytes(8)])) == 3 + 1, "older ones are gone"
    assert stream.replay([b"client", b""]) == stream.replay([b"client", b"", b"x"]) == []


def test_blocks_in_a_row_are_one_event() -> None:
    ledger = Ledger(2)
    tokens = array("Q", range(8))
    ids = chain(tokens, 2)
    ledger.bring(ids, tokens)
    for each in ids[:3]:
        ledger.listen(each, True)
    (event,) = ledger.take()
    assert isinstance(event, BlockStored)
    assert (event.block_hashes, event.parent_block_hash, event.token_ids) == (list(ids[:3]), None, [0, 1, 2, 3, 4, 5])
    ledger.listen(ids[3], True)
    ledger.listen(ids[1], False)
    ledger.listen(ids[2], False)
    later, removed = ledger.take()
    assert isinstance(later, BlockStored) and later.parent_block_hash == ids[2]
    assert isinstance(removed, BlockRemoved) and removed.block_hashes == [ids[1], ids[2]]
    ledger.release(ids)
    assert len(ledger) == 2


async def receive(socket: zmq.asyncio.Socket) -> list[bytes]:
    async with asyncio.timeout(PATIENCE_S):
        return await socket.recv_multipart()


async def replayed(endpoint: str, context: zmq.asyncio.Context, start: int) -> dict[int, Any]:
    """As vLLM's example subscriber asks: an empty frame and a number; answers until number -1."""
    socket = context.socket(zmq.DEALER)
    socket.connect(endpoint)
    await socket.send_multipart([b"", start.to_bytes(8, "big")])
    found = {}
    while True:
        _, number, payload = await receive(socket)
        if int.from_bytes(number, "big", signed=True) == -1:
            break
        found[int.from_bytes(number, "big")] = unpack(payload)
    socket.close(linger=0)
    return found


def test_a_subscriber_follows_the_cache() -> None:
    """It joins late, sees the gap by the first number, asks for what it missed, and then believes what is true."""

    async def main() -> None:
        context = zmq.asyncio.Context()
        async with an_engine(kv_events_config=EVENTS, num_gpu_blocks_override=120, max_model_len=1000) as engine:
            socket = context.socket(zmq.SUB)
            socket.connect(engine.kv_endpoint)
            socket.setsockopt(zmq.SUBSCRIBE, b"kv@")
            heard: dict[int, Any] = {}
            sent = 0
            while not heard:  # a subscriber does not know when it is joined: go on until it hears something
                await ask(engine, "POST", CHAT, chat(f"{sent} " * 60, max_tokens=20))
                sent += 1
                if await socket.poll(20):
                    topic, number, payload = await receive(socket)
                    assert topic == b"kv@1"
                    heard[int.from_bytes(number, "big")] = unpack(payload)
            for number in range(25):  # 25 prompts of 100 blocks and more in a cache of 120
                await ask(engine, "POST", CHAT, chat(f"again {number} " * 40, max_tokens=20))
            publisher = engine.core.publisher
            assert publisher is not None
            last = publisher.stream.sent - 1
            while last not in heard:
                _, number, payload = await receive(socket)
                heard[int.from_bytes(number, "big")] = unpack(payload)
            first = min(heard)
            missed = await replayed(engine.replay_endpoint, context, 0)
            assert all(missed[number] == heard[number] for number in missed.keys() & heard.keys())
            believed: set[int] = set()
            for number in range(last + 1):
                for event in (heard if number >= first else missed)[number][1]:
                    believed = follow(believed, event)
            assert believed == engine.replica.pool.nodes.keys()
            assert engine.core.ledger is not None and len(engine.core.ledger) == len(believed), "nothing else is kept"
            assert (await ask(engine, "POST", "/reset_prefix_cache"))[0] == 200
            _, _, payload = await receive(socket)
            assert unpack(payload)[1] == [{"type": "AllBlocksCleared"}]
            socket.close(linger=0)
        context.term()

    loop.run(main())


def follow(believed: set[int], event: Any) -> set[int]:
    match event["type"]:
        case "BlockStored":
            return believed | set(event["block_hashes"])
        case "BlockRemoved":
            assert believed >= set(event["block_hashes"])
            return believed - set(event["block_hashes"])
    return set()


def test_an_engine_connects_where_the_endpoint_has_no_wildcard() -> None:
    """Many engines push into one socket that the gateway binds; a crash starts the numbers anew."""

    async def main() -> None:
        context = zmq.asyncio.Context()
        socket = context.socket(zmq.SUB)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        config = KvEvents(True, endpoint=f"tcp://127.0.0.1:{port}")
        async with an_engine(kv_events_config=config) as engine:
            for turn in range(2):
                heard = False
                while not heard:
                    prompt = chat(f"{turn} {engine.core.metrics.tokens} " * 40, max_tokens=20)
                    await ask(engine, "POST", CHAT, prompt)
                    heard = bool(await socket.poll(20))
                _, number, payload = await receive(socket)
                event = unpack(payload)[1][0]
                tokens = converse(prompt["messages"])[: len(event["token_ids"])]
                if not int.from_bytes(number, "big"):
                    assert event["token_ids"] == tokens.tolist() and event["parent_block_hash"] is None
                    assert tuple(event["block_hashes"]) == chain(tokens, 16)
                engine.fault("crash")
                engine.clear()
                await engine.settled()
                while await socket.poll(20):
                    await receive(socket)
            await until(lambda: not engine.replica.running)
        socket.close(linger=0)
        context.term()

    loop.run(main())
