"""Sounds: what is heard in one is drawn like any answer, and what is said is silence of its length.

A sound in has a token for each of Whisper's positions (50 a second of 16 kHz, 16 bits), found by its bytes alone.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from typing import Any, Final

from xxhash import xxh3_64_intdigest

from poise.live.emulator import shape
from poise.live.emulator.refuse import Refused, missing
from poise.live.emulator.reply import STREAM, Reply
from poise.live.emulator.tokens import encode
from poise.live.requests.audio_request import POSITION_BYTES
from poise.live.requests.form import Form, read_form

POSITIONS: Final = 50
"""Positions of a second of sound."""
RATE: Final = 24_000
TOKEN_SAMPLES: Final = 1_920
"""Samples of 16 bits that a token of speech becomes, 12.5 tokens a second."""
FORMATS: Final = ("json", "text", "verbose_json")


def form(body: bytes) -> Form:
    """The form with a sound; refused where there is none."""
    found = read_form(body)
    if isinstance(found, str):
        raise Refused(400, found)
    if "file" not in found.files:
        raise missing("file", {})
    if found.fields.get("response_format", "json") not in FORMATS:
        raise Refused(400, "Currently only support response_format: `text`, `json` or `verbose_json`")
    return found


def heard(found: Form) -> array[int]:
    """The tokens of a sound, the prompt before them."""
    sound = found.files["file"]
    first = xxh3_64_intdigest(sound)
    positions = range(max(1, len(sound) // POSITION_BYTES))
    return encode(found.fields.get("prompt", "")) + array("Q", [(first + place) >> 1 for place in positions])


def fields(found: Form) -> Mapping[str, Any]:
    """What the form says of the answer."""
    given: dict[str, Any] = {"stream": found.fields.get("stream", "").lower() in ("true", "1")}
    if "model" in found.fields:
        given["model"] = found.fields["model"]
    return given


class Heard(Reply):
    """The text of a sound, whole. form: of the request."""

    __slots__ = ("form",)

    form: Form

    def close(self) -> None:
        """Send everything."""
        text = self.ask.speech.text()
        seconds = len(self.form.files["file"]) / POSITION_BYTES / POSITIONS
        wanted = self.form.fields.get("response_format", "json")
        if wanted == "text":
            self.exchange.answer(200, text.encode(), b"text/plain; charset=utf-8")
            return
        if wanted == "verbose_json":
            language = self.form.fields.get("language", "en")
            whole = {"duration": seconds, "language": language, "text": text, "segments": [], "words": None}
            self.exchange.answer(200, shape.encode(whole))
            return
        usage = {"type": "duration", "seconds": -int(-seconds // 1)}
        self.exchange.answer(200, shape.encode({"text": text, "usage": usage}))


class HeardEvents(Reply):
    """The text of a sound, streamed."""

    __slots__ = ("form",)

    form: Form

    def begin(self) -> None:
        """Send the head."""
        self.exchange.start(200, STREAM)

    def say(self, place: int) -> None:
        """Send a token."""
        finish = self.ask.finish if place == self.ask.speech.tokens - 1 else None
        choice = {"delta": {"content": self.ask.speech.word(place)}, "finish_reason": finish, "stop_reason": None}
        chunk = {"id": self.name, "object": "transcription.chunk", "created": self.created, "model": self.ask.model}
        self.exchange.write(shape.event(chunk | {"choices": [choice]}))

    def close(self) -> None:
        """Send the end."""
        self.exchange.write(shape.DONE)
        self.exchange.end()


class Spoken(Reply):
    """A text as sound: a WAV file, as long as its tokens are."""

    __slots__ = ()

    def close(self) -> None:
        """Send everything."""
        size = 2 * TOKEN_SAMPLES * self.made
        head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", size + 36, b"WAVE", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16,
                           b"data", size)  # fmt: skip
        self.exchange.answer(200, head + bytes(size), b"audio/wav")
