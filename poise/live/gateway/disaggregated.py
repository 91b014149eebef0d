"""Two engines for one request: one computes the prompt, the other fetches its KV cache and generates the output.

The protocol of vLLM's KV connectors (NixlConnector and similar): the prefill engine gets the request for one token with
`kv_transfer_params` that ask it to keep the KV, and returns the parameters that the decode engine needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from poise.live.http.call import Failure
from poise.live.requests.body_fields import fields, replaced

if TYPE_CHECKING:
    from poise.live.gateway.fleet import Engine
    from poise.live.gateway.proxied_request import ProxiedRequest

_ASK: Final = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_LARGEST: Final = 1 << 20
"""Most bytes of a prefill engine's answer; a longer one is ignored."""


def prefill_body(body: bytes) -> bytes:
    """The request as the prefill engine gets it: one token, no stream, the KV kept for another."""
    prefill: dict[str, Any] = {**fields(body), "stream": False, "max_tokens": 1}
    prefill.pop("stream_options", None)
    if "max_completion_tokens" in prefill:
        prefill["max_completion_tokens"] = 1
    if "min_tokens" in prefill:
        prefill["min_tokens"] = 1
    prefill["kv_transfer_params"] = _ASK
    return msgspec.json.encode(prefill)


def decode_body(body: bytes, answer: bytes) -> bytes:
    """The request for the decode engine: with the KV transfer parameters that the prefill engine returned."""
    return replaced(body, {"kv_transfer_params": fields(answer).get("kv_transfer_params")})


class PrefillCall:
    """Receives the prefill engine's answer, and sends the request on to the decode engine."""

    __slots__ = ("_answer", "_decode", "_engine", "_headers", "_status", "_trip")

    def __init__(self, proxied: ProxiedRequest, engine: Engine, decode: Engine) -> None:
        self._trip = proxied
        self._engine = engine
        self._decode = decode
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._answer = b""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins."""
        self._status, self._headers = status, headers

    def data(self, data: bytes) -> None:
        """A part of the answer."""
        self._answer += data
        if len(self._answer) > _LARGEST:
            self._trip.stop()
            self._trip.failed(Failure("garbage", f"the prefill engine's answer has more than {_LARGEST} bytes", True))

    def end(self) -> None:
        """The prompt is computed, or the engine refused it."""
        proxied, engine = self._trip, self._engine
        if self._status >= 400:
            proxied.refused(engine, self._status, self._headers, self._answer)
            return
        try:
            body = decode_body(proxied.exchange.body, self._answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            proxied.failed(Failure("garbage", "the prefill engine's answer is not valid JSON", True))
            return
        engine.well(proxied.sent_at)
        proxied.go_on(self._decode, body)

    def failed(self, why: Failure) -> None:
        """The connection to the engine failed."""
        self._trip.failed(why)
