"""Which policies match prompts by prefix, and a note where the requests have no prefix identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poise.policies import Policies

CURE = "give the trace hash_ids, or add workload.shared_prefixes or workload.sessions"


def blind(policies: Mapping[str, Policies], offered: Mapping[str, Any]) -> dict[str, str]:
    """What each bundle whose router or order matches prefixes uses instead; empty where requests have identity.

    offered: the summary of the workload (`Workload.summary`).
    """
    if "reachable_hit_rate" in offered or not offered:
        return {}
    return {name: instead for name, bundle in policies.items() if (instead := _instead(bundle))}


def note(instead: str) -> str:
    """The note of a result on one blind bundle."""
    return f"the requests have no prefix identity, so it goes by {instead}, and no prompt hits a cache; {CURE}"


def blind_line(found: Mapping[str, str]) -> str:
    """One sentence about all blind bundles; empty where there are none."""
    if not found:
        return ""
    by: dict[str, list[str]] = {}
    for name, instead in found.items():
        by.setdefault(instead, []).append(name)
    parts = [
        f"{' and '.join(names)} {'go' if len(names) > 1 else 'goes'} by {instead}" for instead, names in by.items()
    ]
    text = "The requests have no prefix identity"
    return f"{text}: {', '.join(parts)}, and no prompt hits a cache. To compare by prefix, {CURE}."


def _instead(policies: Policies) -> str:
    """What decides in place of prefixes; empty where no policy matches them."""
    for policy in (policies.router, policies.order):
        if instead := getattr(policy, "without_prefixes", ""):
            return str(instead)
        if "cached_tokens" in getattr(policy, "needs", ()):
            return "load alone"
    return ""
