"""What changed between two snapshots, as a JSON merge patch (RFC 7396)."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def patch(before: Json, after: Json) -> Json:
    """What `merge` makes `after` of `before` with: changed members alone, None for one that is gone; lists go whole.

    Neither may have None as a value: it has no other meaning here.
    """
    changed: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = patch(old, value)
            if inner:
                changed[name] = inner
        elif old != value:
            changed[name] = value
    return changed


def merge(before: Json, change: Json) -> Json:
    """`before` with a patch applied, as the page does it."""
    after = dict(before)
    for name, value in change.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            old = after.get(name)
            after[name] = merge(old if isinstance(old, dict) else {}, value)
        else:
            after[name] = value
    return after
