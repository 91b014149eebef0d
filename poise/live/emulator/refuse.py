"""What vLLM's server does not take, refused with its statuses and sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from poise.live.http.refuse import ANTHROPIC, error_body

INVALID: Final = "Bad Request"
"""The kind of refusals by the types of fields."""


class Refused(Exception):
    """A request that the engine does not take: an HTTP status and what goes into the body of the answer."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def body(self, path: str = "") -> bytes:
        """vLLM's `ErrorResponse`, or Anthropic's on its paths, but for what pydantic refuses there."""
        if path.startswith(ANTHROPIC) and self.kind != INVALID:
            error = {"type": self.kind, "message": self.message}
            return msgspec.json.encode({"type": "error", "error": error})
        return error_body(self.status, self.kind, self.message, self.param)


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a body; refused as FastAPI does it where there is none."""
    if not body:
        raise invalid("missing", (), "Field required", None)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _no_json(body) from None
    if not isinstance(found, dict):
        raise invalid(
            "model_attributes_type", (), "Input should be a valid dictionary or object to extract fields from", found
        )
    return found


def _no_json(body: bytes) -> Refused:
    """The refusal of a body that is not valid JSON, with the place and the message of Python's own reader."""
    place, text = 0, "Expecting value"
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        place, text = error.pos, error.msg
    except (UnicodeDecodeError, RecursionError):
        return Refused(400, "There was an error parsing the body", "Bad Request")
    return invalid("json_invalid", (place,), "JSON decode error", {}, ctx={"error": text})


def invalid(kind: str, where: tuple[str | int, ...], message: str, given: object, **more: object) -> Refused:
    """The refusal of a field by its type, worded as vLLM words pydantic's errors."""
    place = ".".join(map(str, ("body", *where)))
    error = {"type": kind, "loc": place, "msg": message, "input": _shown(given), **more}
    return Refused(400, f"1 validation error:\n  {error}", INVALID, place)


def _shown(given: object) -> str:
    """A value in an error: what is large by its size alone."""
    return f"<{type(given).__name__} of {len(given)} items>" if isinstance(given, dict | list) else str(given)


def unfit(message: str, name: str, *value: object) -> Refused:
    """The refusal of a field by vLLM's own rules: the sentence ends in its name and, if that is given, its value."""
    text = "".join(f", value={each}" for each in value)
    return Refused(400, f"{message} (parameter={name}{text})", param=name)


def number(body: Mapping[str, Any], name: str) -> float | None:
    """A field that is a number, None where it is not given; texts of numbers count, as in pydantic."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            text = "Input should be a valid number, unable to parse string as a number"
            raise invalid("float_parsing", (name,), text, value) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid("float_type", (name,), "Input should be a valid number", value)
    return float(value)


def whole(body: Mapping[str, Any], name: str, least: int | None = None) -> int | None:
    """A field that is a whole number, None where it is not given; texts of numbers count, as in pydantic."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            text = "Input should be a valid integer, unable to parse string as an integer"
            raise invalid("int_parsing", (name,), text, value) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid("int_type", (name,), "Input should be a valid integer", value)
    if least is not None and value < least:
        raise unfit(f"{name} must be at least {least}, got {value}.", name, value)
    return value


def missing(name: str, body: Mapping[str, Any]) -> Refused:
    """The refusal of a body that lacks a field."""
    return invalid("missing", (name,), "Field required", dict(body))
