"""What is read of any request body, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, ValidationError

from poise.live.http.refuse import styled
from poise.live.requests import bodies
from poise.live.requests.prompt_text import PromptText

_Kind = TypeVar("_Kind")

NO_OUTPUT: Final = 1
"""The limit of requests that generate nothing: the one token that ends a prompt, and counts as no work of its own."""


class ParsedRequest(Struct, gc=False):
    """The parsed fields of one request.

    max_tokens: the client's limit on output, 0 for none.  n: answers wanted.  priority: vLLM's, lower goes first.
    session: `prompt_cache_key`, which a client keeps for a conversation.  salt: `cache_salt`; prompts with different
    salts share no cache.  previous: `previous_response_id`, known only to the engine that issued it.
    text: the canonical bytes of the prompt, or its token ids, 4 bytes each, if `token_ids`; of several prompts the
    first.  more: bytes of the others.  media: parts that are not text.
    """

    kind: str
    model: str
    text: bytes
    stream: bool
    include_usage: bool
    max_tokens: int
    n: int
    priority: int
    user: str
    session: str
    salt: str
    previous: str
    token_ids: bool
    more: int
    media: int

    def prompt_tokens(self, bytes_per_token: float = 4.0) -> int:
        """Tokens of all prompts: counted where they are token ids, else estimated from their bytes, at least 1."""
        each = 4.0 if self.token_ids else bytes_per_token
        return max(1, int(len(self.text) / each) + int(self.more / each))


class BadRequest(NamedTuple):
    """Why a request is refused; `json` is the body."""

    status: int
    type: str
    param: str | None
    message: str
    code: int | str | None = None

    def json(self, path: str = "") -> bytes:
        """The error object of the path's API; OpenAI's where no path is given."""
        return styled(path, self.status, self.message, self.type, self.param, self.code)


def parsed(
    kind: str, body: bodies.Common, prompt: PromptText, limit: int | None, previous: str | None = None
) -> ParsedRequest:
    """The fields of a body and its prompt, together."""
    options = body.stream_options
    return ParsedRequest(
        kind,
        body.model or "",
        prompt.text,
        bool(body.stream),
        options is not None and bool(options.include_usage),
        limit or 0,
        body.n or 1,
        body.priority or 0,
        body.user or "",
        body.prompt_cache_key or "",
        body.cache_salt or "",
        previous or "",
        prompt.token_ids,
        prompt.more,
        prompt.media,
    )


def guarded(read: Callable[[bytes], _Kind], body: bytes) -> _Kind | BadRequest:
    """The result of `read` on a body, or the error in it. Raw parts are decoded late, so any step may fail.

    The whole body must be UTF-8, skipped fields included, so that later readers cannot fail on it.
    """
    try:
        if not body.isascii():
            body.decode()
        return read(body)
    except ValidationError as error:
        return _invalid(str(error))
    except (DecodeError, UnicodeDecodeError) as error:
        return bad(f"the body is not valid JSON: {error}; send one JSON object in UTF-8")
    except RecursionError:
        return bad("the body is nested too deeply; send a JSON object of at most a few hundred levels")


def bad(message: str, param: str | None = None) -> BadRequest:
    """A client's mistake, in a field or in the body as a whole."""
    return BadRequest(400, "invalid_request_error", param, message)


def _invalid(text: str) -> BadRequest:
    """msgspec's "Expected `str`, got `int` - at `$.messages[0].role`" with the field as OpenAI's `param`."""
    text, _, path = text.partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or None
    if text.startswith("Object missing required field"):
        missing = text.split("`")[1]
        field = f"{field}.{missing}" if field else missing
        text = f"{missing} is missing"
    elif field is None:
        return bad(f"the body: {text}; send one JSON object")
    return bad(f"{field}: {text}", field)
