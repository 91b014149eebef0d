"""Whether the gateway follows engines' KV events."""

from __future__ import annotations

from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet
from poise.policies.find import build


def follows_events(fleet: Fleet, setting: Setting) -> bool:
    """Whether engines report their cached blocks to the gateway.

    Where its router reads prefixes and a tokenizer is given. Data ranks have a cache each, of which the gateway would
    follow the first alone, so a fleet with any is routed by what was sent where.
    """
    reads = "cached_tokens" in build("router", fleet.router).needs
    caching = all(pool.engine.prefix_caching and pool.data == 1 for pool in fleet.pools)
    same = len({pool.engine.block_tokens for pool in fleet.pools}) == 1
    return bool(setting.tokenizer) and reads and caching and same
