"""`check_forecast`: the contract of forecasts as one function, for any forecast."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import isfinite

from poise.core.event import Arrived
from poise.core.policy import Forecaster
from poise.core.slot import SLOTS
from poise.core.units import SECOND
from poise.testing.builders import a_chance, a_request
from poise.testing.rule import RuleBroken
from poise.testing.twins import twins

_BEATS = 60


def check_forecast(make: Callable[[], Forecaster], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Forecaster` that those which `make()` builds do not keep.

    The rules: equal fresh copies that see the same forecast the same, deep copies too; a forecast is requests per
    second, finite and not below 0. Tried on traffic that arrives in bursts and stops; one with `reveal` gets
    the truth.
    """
    both, _ = twins("forecast", make)
    rng, arrivals = random.Random(seed), []
    for beat in range(_BEATS):
        crowd = rng.choice((0, 0, 1, 20))
        arrivals += sorted(beat * SECOND + rng.randrange(SECOND) for _ in range(crowd))

    def truth(since: int, until: int) -> int:
        return sum(since <= at < until for at in arrivals)

    both.ask("reveal", truth)
    for beat in range(1, _BEATS):
        if beat == _BEATS // 2:
            both.join_copy()
        now = beat * SECOND
        for at in arrivals:
            if now - SECOND <= at < now:
                both.ask("observe", Arrived(at, a_request(id=at % 10**6, arrived_at=at)))
        both.where = f"at beat {beat}"
        answer = both.ask(SLOTS["forecast"].verb, now, now + rng.choice((1, 60)) * SECOND, a_chance(key=beat))
        if not isinstance(answer, int | float) or not isfinite(answer) or answer < 0:
            raise RuleBroken(f"{both.who} answers {answer!r}; it is requests per second, 0 or more; {both.where}")
