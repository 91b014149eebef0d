"""Settings of how the gateway treats requests, apart from policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from poise.core.spec import Role
from poise.live.http.limits import Limits, PoolLimits
from poise.live.requests.paths import AUDIO

SOUND_BYTES: Final = 25 << 20
"""The longest body of a request with a sound: the default of OpenAI and of vLLM."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for all requests; a time of 0 means no limit.

    held_s: longest wait in the gateway's queue; then 503.  held: requests that may wait; the next gets 503.
    request_s: longest total time of a request.  ttft_s: deadline of the first token where the request has none.
    bytes_per_token: initial estimate of prompt tokens, until usage reports improve it.
    error_bytes: bytes of an engine's error answer that are kept to be passed on.
    gathered_bytes: bytes of a non-streaming answer that are buffered, so that another engine can still be tried.
    fan_out: most items of a fan-out request, 0 to forward such requests unchanged.
    prefix_tokens: prompt tokens remembered as cached at an engine that does not report its KV cache size.
    pools: the roles of the engines in each pool that a scaler controls.
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
    clients: Limits = field(default_factory=lambda: Limits(large_bytes=SOUND_BYTES, large=AUDIO))
    engines: PoolLimits = field(default_factory=PoolLimits)
