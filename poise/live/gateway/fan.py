"""Fan-out: a request over several items becomes one request per item, and their answers one answer.

PARALLELPROMPT (arXiv 2506.18728) finds template, context and items in a prompt; here the client states them. The
shared part comes first in every prompt, so that engines find it cached and a prefix-aware router keeps them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.json import Decoder, encode

from poise.live.http.exchange import Exchange
from poise.live.http.header import Headers
from poise.live.http.refuse import error_body, openai
from poise.live.requests.body_fields import fields
from poise.live.requests.parsed_request import BadRequest, guarded

ITEM: Final = "{item}"
"""The placeholder of an item."""
_ITEM: Final = ITEM.encode()

FIELD: Final = b'"fan_out"'
PATHS: Final = ("/v1/chat/completions", "/v1/completions")

MOST: Final = 16 * 2**20
"""Most bytes of one part's answer; a longer one is aborted."""

COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")

_DROPPED: Final = frozenset((b"content-length", b"transfer-encoding", b"accept-encoding", b"expect"))
"""Headers of the whole that are wrong for its parts; parts may not be compressed either, because they are read."""


class FanOut(msgspec.Struct, forbid_unknown_fields=True):
    """The field `fan_out` of a body: a text with `{item}` in it, and the items."""

    template: str
    items: list[str]


_WISH: Final = Decoder(FanOut)
_MESSAGES: Final = Decoder(list[Raw])
_TEXT: Final = Decoder(str)


class Part(Exchange):
    """The request of one item: a client inside the gateway that buffers the answer. over: callback at its end, once."""

    __slots__ = ("over", "reply", "status")

    def __init__(self, whole: Exchange, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        super().__init__(whole.method, whole.target, headers, body, whole.begun_at)
        self.peer = whole.peer
        self.status = 0
        self.reply = bytearray()
        self.over: Callable[[Part], None] | None = None

    def start(self, status: int, headers: Headers, length: int | None = None) -> None:
        """The answer begins."""
        self.started = True
        self.status = status

    def write(self, data: bytes) -> None:
        """A part of the answer."""
        self.reply += data
        if len(self.reply) > MOST and self.gone is not None:
            gone, self.gone = self.gone, None
            gone()
            self.cut()

    def end(self) -> None:
        """The answer is complete."""
        self._close()

    def cut(self) -> None:
        """The answer was aborted."""
        self.status, self.reply = 502, bytearray(openai(502, "an engine broke off the answer for one item"))
        self._close()

    def leave(self) -> None:
        """The client of the whole has disconnected, or another part failed."""
        self.over = None
        super().leave()

    def _close(self) -> None:
        over, self.over = self.over, None
        self.ended = True
        self.gone = self.flow = None
        if over is not None:
            over(self)


def parts(whole: Exchange, most: int, most_bytes: int) -> list[Part] | BadRequest | None:
    """Return the parts of a request, or why it cannot be parted; None where its body has no field `fan_out`.

    most: items.  most_bytes: of all parts' bodies together, which are counted before any of them is made.
    """
    found = guarded(lambda body: _bodies(body, most, most_bytes), whole.body)
    if not isinstance(found, list):
        return found
    headers = [each for each in whole.headers if each[0] not in _DROPPED]
    return [Part(whole, headers, each) for each in found]


def _bodies(body: bytes, most: int, most_bytes: int) -> list[bytes] | BadRequest | None:
    """The bodies of the parts: the shared text, then the template with the item."""
    shared = fields(body)
    wished = shared.pop("fan_out", None)
    if wished is None:
        return None
    try:
        options = _WISH.decode(wished)
    except msgspec.ValidationError as error:
        return _bad(f"fan_out: {error}; give {{template, items}}")
    around = _wrong(options, shared, most) or _around(shared)
    if isinstance(around, BadRequest):
        return around
    before, behind = around
    template, items = _written(options.template), [_written(item) for item in options.items]
    size = len(items) * (len(before) + len(template) + len(behind))
    size += template.count(_ITEM) * (sum(map(len, items)) - len(items) * len(_ITEM))
    if size > most_bytes:
        message = f"the parts have {size} bytes, which is more than {most_bytes}; ask for less at once"
        return BadRequest(413, "invalid_request_error", "fan_out", message)
    return [before + template.replace(_ITEM, item) + behind for item in items]


def _wrong(options: FanOut, shared: dict[str, Raw], most: int) -> BadRequest | None:
    if not 1 <= len(options.items) <= most:
        return _bad(f"fan_out.items has {len(options.items)} items; give 1 to {most}")
    if ITEM not in options.template:
        return _bad(f"fan_out.template has no {ITEM}; put it where the item belongs")
    if _field_text(shared, "stream") not in (b"false", b"null") or _field_text(shared, "n") not in (b"1", b"null"):
        return _bad("fan_out gives one answer with a choice for each item; leave out stream and n")
    return None


def _field_text(shared: dict[str, Raw], name: str) -> bytes:
    return bytes(shared.get(name, b"null"))


def _around(shared: dict[str, Raw]) -> tuple[bytes, bytes] | BadRequest:
    """The body of every part before and after the text of its item."""
    last = "messages" if "messages" in shared else "prompt"
    given = shared.pop(last, None)
    try:
        if last == "messages":
            pieces = [b"%b," % bytes(each) for each in _MESSAGES.decode(given or b"")]
            before, behind = b"[" + b"".join(pieces) + b'{"role":"user","content":"', b'"}]}'
        else:
            before, behind = b'"' + _written("" if given is None else _TEXT.decode(given)), b'"}'
    except msgspec.ValidationError:
        return _bad("fan_out needs messages, or a prompt that is one text; the template comes behind it")
    return b'%b%b"%b":%b' % (encode(shared)[:-1], b"," if shared else b"", last.encode(), before), behind


def _written(text: str) -> bytes:
    """A text escaped for JSON, without its quotes. No escape can add or hide an `{item}`."""
    return encode(text)[1:-1]


def _bad(message: str) -> BadRequest:
    return BadRequest(400, "invalid_request_error", "fan_out", message)


class Fan:
    """Waits for all parts of one exchange, and answers it with one choice for each, in the order of the items.

    The first part that fails is the answer to the whole, and the others are aborted.
    """

    def __init__(self, whole: Exchange, some: Sequence[Part], receive: Callable[[Exchange], None]) -> None:
        self._whole = whole
        self._parts = some
        self._left = len(some)
        self._over = False
        whole.gone = self._leave
        for part in some:
            part.over = self._ended
        for part in some:
            if not self._over:
                receive(part)

    def _ended(self, part: Part) -> None:
        self._left -= 1
        if self._over:
            return
        if part.status != 200:
            self._answer(part.status, bytes(part.reply))
        elif not self._left:
            self._answer(*_joined(self._parts))

    def _answer(self, status: int, body: bytes) -> None:
        self._leave()
        self._whole.answer(status, body)

    def _leave(self) -> None:
        self._over = True
        for part in self._parts:
            if not part.ended:
                part.leave()


def _joined(some: Sequence[Part]) -> tuple[int, bytes]:
    """The combined answer, as engines give several choices: numbered, with their usage summed."""
    try:
        answers = [msgspec.json.decode(part.reply) for part in some]
        choices = [choice | {"index": at} for at, answer in enumerate(answers) for choice in answer["choices"][:1]]
        usages = [answer.get("usage") or {} for answer in answers]
        usage = {name: sum(each.get(name) or 0 for each in usages) for name in COUNTS}
        return 200, encode(answers[0] | {"choices": choices, "usage": usage})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return 502, error_body(502, "server_error", "an engine's answer has no choices to be joined")
