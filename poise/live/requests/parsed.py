"""The fields of a request's body that decisions need, whichever path it came by."""

from __future__ import annotations

from msgspec import Struct


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
