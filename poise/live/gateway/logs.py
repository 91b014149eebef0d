"""Logs: a line for each record, as text or as JSON; and, if enabled, an access line for each request that ends.

Secrets of clients and engines are never logged: keys, headers, prompts, bodies. Anything that looks like a key in a
message from another library is masked.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TextIO

from poise.core.errors import UserError
from poise.core.units import SECOND
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.requests.names import Listed

LEVELS: Final = ("debug", "info", "warning", "error")
FORMS: Final = ("text", "json")
ROOT: Final = "poise"
ACCESS: Final = "poise.access"

_KEYS: Final = re.compile(
    r"(?i)(\b(?:bearer|basic)\s+)[^\s\"',;]+|\b(?:sk|hf|pk)[-_][\w-]{6,}|(://[^\s/:@]*:)[^\s/@]+(?=@)"
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def redacted(text: str) -> str:
    """The text without what looks like a key: after `Bearer`, begun with `sk-`, or the password of a URL."""
    return _KEYS.sub(lambda found: (found[1] or found[2] or "") + "…", text)


class RequestLogLine(logging.Formatter):
    """One line of text: time (UTC), level, logger, message, fields; a value that holds a line's end cannot make one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as it is written."""
        fields = [f"{name}={value}" for name, value in _fields(record).items()]
        head = f"{_time(record)} {record.levelname.lower():7} {record.name}: "
        line = head + _CONTROL.sub(_escape, " ".join([redacted(record.getMessage()), *fields]))
        return f"{line}\n{redacted(self.formatException(record.exc_info))}" if record.exc_info else line


class Json(logging.Formatter):
    """One JSON object a line, in ASCII: `time` (UTC), `level`, `logger`, `message`, any fields, and `error` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as it is written."""
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
            **_fields(record),
        }
        if record.exc_info:
            fields["error"] = redacted(self.formatException(record.exc_info))
        return json.dumps(fields)


def start(level: str = "info", form: str = "text", stream: TextIO | None = None) -> logging.Handler:
    """Start logging, by default to standard error; returns the handler. UserError for an invalid level or format."""
    for given, known, what in ((level, LEVELS, "level"), (form, FORMS, "form")):
        if given not in known:
            raise UserError(f"{given!r} is not a log {what}; use one of {', '.join(known)}")
    logger = logging.getLogger(ROOT)
    for old in [each for each in logger.handlers if isinstance(each.formatter, RequestLogLine | Json)]:
        logger.removeHandler(old)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Json() if form == "json" else RequestLogLine())
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    return handler


class Access:
    """Logs every request that ends; one of a gateway's watchers. models: names by number.  clock: picoseconds."""

    def __init__(self, models: Callable[[], list[str]], clock: Callable[[], int]) -> None:
        self._models = Listed(models)
        self._clock = clock
        self._log = logging.getLogger(ACCESS)

    def __call__(self, proxied: ProxiedRequest, status: int) -> None:
        """A request has ended with `status`."""
        log = self._log
        if log.isEnabledFor(logging.INFO):
            fields = {"fields": self.fields(proxied, status)}
            log.handle(log.makeRecord(log.name, logging.INFO, "", 0, "request", (), None, extra=fields))

    def fields(self, proxied: ProxiedRequest, status: int) -> dict[str, Any]:
        """The logged fields of a request; unknown ones are absent."""
        view, usage, arrived_at = proxied.view, proxied.usage, proxied.view.arrived_at
        data = {
            "request": view.id,
            "tenant": proxied.tenant,
            "model": self._models.name(view.model),
            "engine": proxied.engine.name if proxied.engine is not None else "",
            "status": status,
            "stream": proxied.stream,
            "prompt_tokens": usage.prompt if usage.prompt >= 0 else view.prompt_tokens,
            "output_tokens": usage.tokens,
            "e2e_s": _s(self._clock() - arrived_at),
        }
        if usage.cached >= 0:
            data["cached_tokens"] = usage.cached
        if proxied.sent_at >= 0:
            data["wait_s"] = _s(proxied.sent_at - arrived_at)
        if proxied.first_at >= 0:
            data["ttft_s"] = _s(proxied.first_at - arrived_at)
        return data


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _time(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(2)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _s(duration: int) -> float:
    return round(duration / SECOND, 6)
