"""What the fields of a recorded event or action may hold, by their types."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec

Check = Callable[[Iterable[Any]], None]

_KINDS: dict[Any, tuple[type, ...]] = {
    int: (int,),
    float: (float, int),
    bool: (bool,),
    str: (str,),
    Literal: (str,),
    dict: (dict,),
    type(None): (type(None),),
}
"""The types that JSON gives for a type; what is not here is written as an array."""

_DEEPER = ("request", "spec", "cached", "lanes")
"""Arrays that hold more than whole numbers."""


_NAMED: dict[str, Any] = {"request": RequestView, "role": str, "spec": ReplicaSpec}


def hints(kind: Any) -> dict[str, Any]:
    """The types of a named tuple's fields, those of named tuples in it being themselves.

    Compiled classes forget what is in a tuple, which class a named one is and what a literal holds; the name of its
    field says it.
    """
    types = get_type_hints(kind)
    return {name: _NAMED[name] if hint is type or hasattr(hint, "_fields") else hint for name, hint in types.items()}


def checker(hints: Mapping[str, Any]) -> Check:
    """A check of the values of a tuple with these fields, in order; ValueError names the first of another type.

    Trailing fields may be lacking. Tuples within it hold whole numbers; named tuples are not looked into.
    """
    rules = [(name, _kinds(hint)) for name, hint in hints.items()]

    def check(values: Iterable[Any]) -> None:
        for value, (name, kinds) in zip(values, rules, strict=False):
            kind = type(value)
            numbers = kind not in (list, tuple) or name in _DEEPER or set(map(type, value)) <= {int}
            if kind not in kinds or not numbers:
                raise ValueError(f"{name} is {value!r}")

    return check


def _kinds(hint: Any) -> tuple[type, ...]:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(kind for each in options for kind in _KINDS.get(get_origin(each) or each, (list, tuple)))
