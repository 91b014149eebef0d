"""`check_predictor`: the contract of predictors as one function, for any predictor."""

from __future__ import annotations

import random
from collections.abc import Callable

from poise.core.event import Arrived, Finished
from poise.core.policy import Predictor
from poise.core.slot import SLOTS
from poise.testing.builders import a_chance, a_request
from poise.testing.rule import RuleBroken
from poise.testing.twins import twins

_REQUESTS = 200


def check_predictor(make: Callable[[], Predictor], *, seed: int = 0) -> None:
    """Raise `RuleBroken` at the first rule of `policy.Predictor` that those which `make()` builds do not keep.

    The rules: equal fresh copies that learn the same predict the same, deep copies too; a prediction is a whole number
    of tokens, not below 0; and the key and the seed of `chance` stay as they are. Tried on requests of several models,
    tenants and stages, some of which finish in between; one with `reveal` gets the truth.
    """
    both, _ = twins("predictor", make)
    rng, open_ = random.Random(seed), []
    truth = {number: rng.choice((1, 40, 900)) for number in range(_REQUESTS)}
    both.ask("reveal", truth.__getitem__)
    for number in range(_REQUESTS):
        if number == _REQUESTS // 2:
            both.join_copy()
        request = a_request(
            id=number, prompt_tokens=rng.choice((1, 400, 9000)), model=rng.randrange(2), tenant=rng.choice((-1, 0)),
            stage=rng.choice((-1, 0, 1)), max_tokens=rng.choice((0, 64)), arrived_at=number,
        )  # fmt: skip
        both.where = f"for {request}"
        chance = a_chance(key=number)
        both.ask("observe", Arrived(number, request))
        answer = both.ask(SLOTS["predictor"].verb, request, chance)
        if type(answer) is not int or answer < 0:
            raise RuleBroken(f"{both.who} answers {answer!r}; tokens are a whole number, 0 for unsaid; {both.where}")
        if (chance.key, chance.seed) != (number, a_chance().seed):
            raise RuleBroken(f"{both.who} changed the key or the seed of `chance`; {both.where}")
        open_.append(request)
        if rng.random() < 0.7:
            done = open_.pop(rng.randrange(len(open_)))
            both.ask("observe", Finished(number, done.id, truth[done.id]))
            both.ask("learn", done, truth[done.id])
