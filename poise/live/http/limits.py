"""Limits on what clients may send, and on how long the pool waits for an engine."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 10**12
"""Picoseconds in a second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one client's connection; a request past one is refused, and counted by its reason.

    header_bytes, headers: of one head (431).  body_bytes: of one body (413).  large_bytes, large: of one body where the
    path begins with one of these, if that is more.  pipelined: requests that may wait behind
    the current one (503).  head_s: for a whole head (408).  body_s: for a body, and for every `body_rate` bytes of it
    a second more (408).  idle_s: between requests.  read_s: for a client that reads nothing of its answer.
    bodies_bytes: of all clients' bodies together, being read or kept for an engine (503).
    linger_s, linger_bytes: how long, and how much of, a refused request is still read, so that its client sees why.
    connections: at once (503).  write_buffer_bytes: unread by the client before the handler must pause.
    """

    header_bytes: int = 32_768
    headers: int = 100
    body_bytes: int = 10 * 1024 * 1024
    large_bytes: int = 0
    large: tuple[bytes, ...] = ()
    bodies_bytes: int = 1024 * 1024 * 1024
    pipelined: int = 16
    head_s: float = 10.0
    body_s: float = 60.0
    body_rate: int = 16_384
    idle_s: float = 75.0
    read_s: float = 120.0
    linger_s: float = 2.0
    linger_bytes: int = 1024 * 1024
    connections: int = 20_000
    write_buffer_bytes: int = 65_536

    def body_limit(self, target: bytes) -> int:
        """The bytes that the body of a request to this target may have."""
        return max(self.body_bytes, self.large_bytes) if target.startswith(self.large) else self.body_bytes


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How connections to one engine are kept and waited for; a time of 0 means no limit.

    idle: unused connections kept.  idle_s: how long, less than the engine keeps them (uvicorn: 5 s).
    connect_s: for a connection.  head_s: from the request to the answer's first byte.  stall_s: between two reads of
    an answer.  header_bytes: of an answer's head, or of what surrounds its body without a byte of it.
    """

    idle: int = 256
    idle_s: float = 4.0
    connect_s: float = 5.0
    head_s: float = 600.0
    stall_s: float = 300.0
    header_bytes: int = 65_536
