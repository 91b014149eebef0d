"""How the gateway treats requests, apart from what policies decide."""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.spec import Role
from poise.live.wire.limits import Limits, PoolLimits


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for all requests; a time of 0 is no limit.

    held_s: longest wait at the gateway; then 503.  held: requests that may wait; the next gets 503.
    request_s: longest life of a request.  ttft_s: deadline of the first token of requests that bring none.
    bytes_per_token: to guess prompt tokens, until usage teaches better.
    error_bytes: of an engine's error answer that are kept to be passed on.
    gathered_bytes: of an answer that is no stream, kept until it is whole so that another engine can still be asked.
    fan_out: items that a request may name to be taken apart for, 0 to pass it on as it is.
    prefix_tokens: of prompts that are remembered as sent to an engine that does not tell the size of its KV cache.
    pools: the roles of the engines in each pool that a scaler decides on.
    """

    held_s: float = 60.0
    held: int = 10_000
    request_s: float = 0.0
    ttft_s: float = 0.0
    bytes_per_token: float = 4.0
    error_bytes: int = 65_536
    gathered_bytes: int = 65_536
    fan_out: int = 0
    prefix_tokens: int = 4_000_000
    pools: tuple[Role, ...] = ()
    clients: Limits = field(default_factory=Limits)
    engines: PoolLimits = field(default_factory=PoolLimits)
