"""Exact prefix identity: the token ids of a prompt, hashed in blocks as the engine cuts them.

Tokenising is slow (about 0.3 ms for 1.3 kB), and a conversation's next turn repeats all of the last one. So a text is
cut before each special token (`<|user|>` and its like), and the token ids of each cut are cached. That is exact: a
tokenizer takes its added tokens out of the text first, leftmost and longest, and handles what lies between them alone.
Only tokens whose match depends on nothing before them make a cut.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from tokenizers import Tokenizer

from poise.core.errors import UserError
from poise.live.requests.chat_template import ChatTemplate
from poise.live.requests.hash_chain import block_ids, token_root
from poise.live.requests.messages_chat import chat_of
from poise.live.telemetry.kv_events import salted

ROOM: Final = 1 << 24
"""Characters of cuts whose token ids are cached."""


class Identity(NamedTuple):
    """A prompt as its engine sees it: `ids` and `ends` as in `RequestView`."""

    prompt_tokens: int
    ids: tuple[int, ...]
    ends: tuple[int, ...]


class TokenPrefix:
    """Token ids of texts, with a cache. Not safe for two threads at once.

    room: characters cached.  hits, misses: cuts found and not found in the cache.
    """

    __slots__ = ("_known", "_plain", "_size", "_special", "_tokenizer", "hits", "misses", "room")

    def __init__(self, tokenizer: Tokenizer, room: int = ROOM) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        first = [each for each in tokenizer.get_added_tokens_decoder().values() if not each.normalized and each.content]
        first.sort(key=lambda each: len(each.content), reverse=True)  # so the leftmost match is the longest there
        self._special = re.compile("|".join(re.escape(each.content) for each in first)) if first else None
        # A match of these depends on nothing before it; what follows it stays in its cut.
        self._plain = {each.content for each in first if not (each.lstrip or each.single_word)}
        self._known: OrderedDict[str, array[int]] = OrderedDict()
        self._size = 0
        self.room = room
        self.hits = self.misses = 0

    def encode(self, text: str, whole: bool = False) -> array[int]:
        """The token ids of `text`; `whole`: with what the tokenizer adds around a text (BOS, EOS)."""
        if whole:
            return self._encoded(text, True)
        found = array("I")
        for cut in self._cuts(text):
            found += self._remembered(cut)
        return found

    def _cuts(self, text: str) -> list[str]:
        if self._special is None:
            return [text] if text else []
        places = [each.start() for each in self._special.finditer(text) if each[0] in self._plain]
        places = [0, *places, len(text)]
        return [text[start:end] for start, end in pairwise(places) if start < end]

    def _remembered(self, cut: str) -> array[int]:
        known = self._known
        found = known.get(cut)
        if found is not None:
            self.hits += 1
            known.move_to_end(cut)
            return found
        self.misses += 1
        found = known[cut] = self._encoded(cut, False)
        self._size += len(cut)
        while self._size > self.room:
            self._size -= len(known.popitem(last=False)[0])
        return found

    def _encoded(self, text: str, whole: bool) -> array[int]:
        # The batch form alone lets other threads run meanwhile.
        return array("I", self._tokenizer.encode_batch_fast([text], add_special_tokens=whole)[0].ids)


class Exact:
    """Exact identities for one model.

    block_tokens: of the engine's KV blocks.  Bodies are decoded JSON as the client sent it.
    """

    __slots__ = ("block_tokens", "template", "tokens")

    def __init__(self, tokens: TokenPrefix, template: ChatTemplate | None, block_tokens: int) -> None:
        self.tokens = tokens
        self.template = template
        self.block_tokens = block_tokens

    @classmethod
    def of(cls, folder: Path, block_tokens: int) -> Exact:
        """From a folder with tokenizer.json and tokenizer_config.json; UserError where it cannot be used."""
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise UserError(f"{file}: no such file; give the folder of a tokenizer that has tokenizer.json")
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exceptions
            raise UserError(f"{file}: is not a tokenizer ({error}); take the file of the model") from None
        return cls(TokenPrefix(tokenizer), ChatTemplate.of(folder), block_tokens)

    def identity(self, kind: str, body: bytes, lora: str = "") -> Identity | None:
        """The identity of a request's first prompt; None where it cannot be known: pictures, a template of its own.

        kind: as in `ParsedRequest`.  lora: name of the adapter, which shares no cache with the model or another one.
        """
        try:
            fields = msgspec.json.decode(body)
            if kind == "messages":
                kind, fields = "chat", chat_of(fields)
            tokens = self._chat(fields) if kind == "chat" else self._prompt(fields)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            return None  # not as it should be; the engine will say so
        if tokens is None:
            return None
        block = self.block_tokens
        first = salted(str(fields.get("cache_salt") or ""))
        ids = block_ids(tokens, block, token_root(block, lora), first)
        return Identity(len(tokens), ids, tuple(range(block, block * len(ids) + 1, block)))

    def _chat(self, fields: Mapping[str, Any]) -> array[int] | None:
        if self.template is None or fields.get("chat_template") or fields.get("continue_final_message"):
            return None
        text = self.template.render(fields)
        return None if text is None else self.tokens.encode(text, bool(fields.get("add_special_tokens", False)))

    def _prompt(self, fields: Mapping[str, Any]) -> array[int] | None:
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            prompt = prompt[0]
        if isinstance(prompt, list):
            return array("I", prompt)
        if isinstance(prompt, str):
            return self.tokens.encode(prompt, bool(fields.get("add_special_tokens", True)))
        return None


class Tokenising:
    """Runs `Exact.identity` in one thread next to the event loop, which is not blocked.

    most: calls that may wait; one more is refused, and the caller uses the approximate identity.
    """

    __slots__ = ("_exact", "_loop", "_thread", "most", "waiting")

    def __init__(self, exact: Exact, most: int = 64) -> None:
        self._exact = exact
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tokenise")
        self.most = most
        self.waiting = 0

    def ask(self, kind: str, body: bytes, lora: str, then: Callable[[Identity | None], None]) -> bool:
        """Compute an identity and pass it to `then` in the loop; False if too many wait already."""
        if self.waiting >= self.most:
            return False
        self.waiting += 1

        def done(future: Future[Identity | None]) -> None:
            if not future.cancelled():
                self._loop.call_soon_threadsafe(self._computed, future, then)

        self._thread.submit(self._exact.identity, kind, body, lora).add_done_callback(done)
        return True

    def _computed(self, future: Future[Identity | None], then: Callable[[Identity | None], None]) -> None:
        self.waiting -= 1
        error = future.exception()
        then(None if error else future.result())
        if error:
            raise error  # the event loop reports it; the request goes on without an identity

    def close(self) -> None:
        """Wait for the running call, drop the others."""
        self._thread.shutdown(cancel_futures=True)
