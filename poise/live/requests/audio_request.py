"""Parses requests about sound: a form with a file for transcription and translation, JSON for speech.

A sound's work is estimated from its bytes: Whisper reads 50 positions a second, and 16 kHz of 16-bit sound have 640
bytes for each. What is compressed counts as less than it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.json import Decoder
from xxhash import xxh3_64_hexdigest

from poise.live.requests import bodies
from poise.live.requests.form import read_form
from poise.live.requests.parsed_request import BadRequest, ParsedRequest, bad, guarded, parsed
from poise.live.requests.prompt_text import PART, PromptText

POSITION_BYTES: Final = 640
"""Bytes of sound that count as one token."""

_SPEECH: Final = Decoder(bodies.Speech)
_TRUE: Final = frozenset(("true", "1", "on", "yes"))
"""What a form's field may say for true, as pydantic has it."""


def read_sound(kind: str) -> Callable[[bytes], ParsedRequest | BadRequest]:
    """A reader of the form of /v1/audio/transcriptions or translations."""
    return lambda body: _sound(kind, body)


def read_speech(body: bytes) -> ParsedRequest | BadRequest:
    """The body of /v1/audio/speech: the text is the prompt."""
    return guarded(_speech, body)


def _sound(kind: str, body: bytes) -> ParsedRequest | BadRequest:
    form = read_form(body)
    if isinstance(form, str):
        return bad(form)
    sound = form.files.get("file")
    if sound is None:
        return bad("file is missing; give a sound as a file of the form", "file")
    text = PART.join((form.fields.get("prompt", ""), xxh3_64_hexdigest(sound)))
    prompt = PromptText(text.encode(), False, 4 * len(sound) // POSITION_BYTES, 1)
    stream = form.fields.get("stream", "").lower() in _TRUE
    return parsed(kind, bodies.Common(model=form.fields.get("model"), stream=stream), prompt, None)


def _speech(body: bytes) -> ParsedRequest:
    given = _SPEECH.decode(body)
    given.stream = given.stream_format == "sse"  # other streams are plain sound, in which no error can be reported
    return parsed("speech", given, PromptText(f"{given.instructions or ''}{PART}{given.input}".encode()), None)
