"""The error of the test kit: a policy broke a rule of its contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RuleBroken(AssertionError):
    """A policy broke its contract; `str()` names the policy, the rule and the input."""


@contextmanager
def calling(who: str, where: str) -> Iterator[None]:
    """Turn any exception of a policy into a `RuleBroken` that names the input (`where`)."""
    try:
        yield
    except RuleBroken as error:
        raise RuleBroken(f"{who}: {error}; {where}") from None
    except Exception as error:
        raise RuleBroken(f"{who} raised {type(error).__name__}: {error}; {where}") from error
