"""The paths that are decided on and forwarded, and what is known of each.

Sources: vLLM 0.32 (`entrypoints`), SGLang's `http_server.py`, llama.cpp's `tools/server/server.cpp`; for speech
vLLM-Omni.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from poise.live.requests.audio_request import read_sound, read_speech
from poise.live.requests.messages_request import read_count, read_messages
from poise.live.requests.openai_request import read_chat, read_completion, read_embeddings, read_responses
from poise.live.requests.parsed_request import BadRequest, ParsedRequest
from poise.live.requests.pooling_request import (
    read_classify,
    read_pooling,
    read_rerank,
    read_score,
    read_tokens,
)

Reader = Callable[[bytes], ParsedRequest | BadRequest]

CHAT: Final = "/v1/chat/completions"
COMPLETION: Final = "/v1/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"

GENERATING: Final = frozenset((CHAT, COMPLETION, RESPONSES, MESSAGES))
"""Paths whose JSON bodies may get fields from the gateway: hints, or what divides prompt and output between engines."""

AUDIO: Final = (b"/v1/audio/",)
"""How paths begin that take sounds, whose bodies may be larger."""

READERS: Final[dict[bytes, Reader]] = {
    CHAT.encode(): read_chat,
    COMPLETION.encode(): read_completion,
    RESPONSES.encode(): read_responses,
    MESSAGES.encode(): read_messages,
    b"/v1/messages/count_tokens": read_count,
    b"/v1/embeddings": read_embeddings,
    b"/rerank": read_rerank,
    b"/v1/rerank": read_rerank,
    b"/v2/rerank": read_rerank,
    b"/score": read_score,
    b"/v1/score": read_score,
    b"/classify": read_classify,
    b"/pooling": read_pooling,
    b"/tokenize": read_tokens,
    b"/detokenize": read_tokens,
    b"/v1/tokenize": read_tokens,
    b"/v1/detokenize": read_tokens,
    b"/v1/audio/transcriptions": read_sound("transcription"),
    b"/v1/audio/translations": read_sound("translation"),
    b"/v1/audio/speech": read_speech,
}
"""The body's reader, for each path."""
