"""JSON merge patches (RFC 7396) between two snapshots."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def patch(before: Json, after: Json) -> Json:
    """The patch from `before` to `after`: changed members alone, None for a removed one; lists are sent whole.

    Neither may have None as a value: in a patch it means removal.
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
