"""Faults that can be injected into an engine, and which of them applies to a request. No I/O, no clock."""

from __future__ import annotations

from typing import Final

import msgspec

from poise.core.errors import UserError

KINDS: Final = {
    "stall": "no byte of any answer, while it lasts",
    "slow": "every step takes `factor` times as long",
    "crash": "the listener and all connections are gone, the KV cache is lost; it is back after `for_s`",
    "cut": "the connection breaks after `after_tokens` tokens of an answer",
    "garbage": "nonsense instead of an answer, in the given `form`, from token `after_tokens` on",
    "refuse": "the listener is closed; answers under way go on",
    "reject": "requests are answered with `status` and an error",
    "half_open": "requests are accepted and never answered",
}
"""The kinds of faults."""

FORMS: Final = {
    "sse": "an event that is not valid JSON (without streaming: such a body)",
    "chunk": "a chunk whose length is not a number",
    "http": "bytes that are no HTTP",
}
"""Kinds of malformed answers."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault. for_s: real seconds, None until it is cleared.  count: requests that get it, None for all."""

    kind: str
    for_s: float | None = None
    after_tokens: int = 0
    factor: float = 2.0
    count: int | None = None
    status: int = 503
    form: str = "sse"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"fault.kind {self.kind!r} is none of {', '.join(KINDS)}")
        if self.form not in FORMS:
            raise UserError(f"fault.form {self.form!r} is none of {', '.join(FORMS)}")
        if self.for_s is not None and not self.for_s >= 0:
            raise UserError(f"fault.for_s {self.for_s:g} must be 0 or more seconds, or left out")
        if not self.factor > 0:
            raise UserError(f"fault.factor {self.factor:g} must be above 0; 2 is twice as slow")
        if self.count is not None and self.count < 1:
            raise UserError(f"fault.count {self.count} must be 1 or more requests, or left out for all")
        if self.after_tokens < 0:
            raise UserError(f"fault.after_tokens {self.after_tokens} must not be negative")
        if not 400 <= self.status <= 599:
            raise UserError(f"fault.status {self.status} must be an error, 400 to 599")


def read_fault(body: bytes) -> Fault:
    """The fault that a body describes; UserError where it is not valid."""
    try:
        return msgspec.json.decode(body, type=Fault)
    except msgspec.DecodeError as error:
        raise UserError(f"fault: {error}; give a JSON object with `kind`, one of {', '.join(KINDS)}") from None


class Faults:
    """The active faults, at most one of a kind, and how many more requests each applies to."""

    def __init__(self) -> None:
        self.active: dict[str, Fault] = {}
        self._left: dict[str, int] = {}

    def __contains__(self, kind: str) -> bool:
        return kind in self.active

    def begin(self, fault: Fault) -> None:
        """Start a fault, in place of one of its kind."""
        self.active[fault.kind] = fault
        self._left.pop(fault.kind, None)
        if fault.count is not None:
            self._left[fault.kind] = fault.count

    def end(self, kind: str) -> Fault | None:
        """End a fault; returns which one it was."""
        self._left.pop(kind, None)
        return self.active.pop(kind, None)

    def meet(self, kind: str) -> Fault | None:
        """The fault of a kind that applies to the next request."""
        fault = self.active.get(kind)
        if kind in self._left:
            self._left[kind] -= 1
            if not self._left[kind]:
                self.end(kind)
        return fault
