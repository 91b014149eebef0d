"""A body's fields, each as its sender wrote it: for bodies that go on with a field more, less or changed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw
from msgspec.json import Decoder, encode

_FIELDS: Final = Decoder(dict[str, Raw])


def fields(body: bytes) -> dict[str, Raw]:
    """The fields of a JSON object, by name.

    DecodeError, UnicodeDecodeError or RecursionError where it is none: a body that was read once may still be nested
    too deeply for whoever looks into it from further down.
    """
    return _FIELDS.decode(body)


def replaced(body: bytes, changed: dict[str, Any]) -> bytes:
    """A JSON object with these fields in place of its own; all others stay as they were written."""
    return encode(fields(body) | changed)
