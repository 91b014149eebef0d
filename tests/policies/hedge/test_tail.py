"""`tail` against its rule: whom it waits for and how long, what it spends, and where its copies go."""

from __future__ import annotations

import pytest

from poise.core.errors import ScenarioError
from poise.core.event import FirstToken
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.policies.find import build, names
from poise.policies.hedge.tail import Tail
from poise.testing import a_chance, a_cluster, a_replica, a_request
from poise.testing.columns import ClusterColumns


def a_view(*replicas: tuple[int, int], now: int = 0, rate: float = 1000.0) -> ClusterColumns:
    """Replicas with so many queued and cached tokens."""
    view = a_cluster(*[a_replica(queued_tokens=q, cached_tokens=c, prefill_rate=rate) for q, c in replicas])
    view.now = now
    return view


def taught(*waits: int, least: int = 1, **given: float) -> Tail:
    """It saw first tokens after so many picoseconds, of requests of 100 tokens."""
    tail = Tail(least=least, **given)  # type: ignore[arg-type]
    for number, wait in enumerate(waits):
        tail.taken(a_request(id=1000 + number, prompt_tokens=100), 0, a_view((0, 0), (0, 0)))
        tail.observe(FirstToken(wait, 1000 + number, 0))
        tail.ended(a_request(id=1000 + number))
    return tail


def sent(tail: Tail, **given: int) -> RequestView:
    request = a_request(**{"id": 1, "prompt_tokens": 100, **given})
    tail.taken(request, 0, a_view((0, 0), (0, 0)))
    return request


def test_it_waits_for_the_quantile_of_its_class() -> None:
    tail = taught(*range(10, 1010, 10), quantile=0.95)
    view = a_view((0, 0), (0, 0))
    assert tail.wait(sent(tail), 0, view) == 950
    assert tail.wait(sent(tail, prompt_tokens=127), 0, view) == 950, "the same power of two"
    assert tail.wait(sent(tail, prompt_tokens=128), 0, view) == 0, "of longer prompts nothing is known"
    assert tail.wait(sent(tail, model=1), 0, view) == 0, "nor of another model"


def test_it_waits_for_none_before_enough_are_known() -> None:
    tail = taught(*[5] * 19, least=20)
    assert tail.wait(sent(tail), 0, a_view((0, 0))) == 0
    tail.observe(FirstToken(5, 1, 0))
    assert tail.wait(sent(tail), 0, a_view((0, 0))) == 5


def test_the_cache_says_of_which_class_a_prompt_is() -> None:
    tail = taught(70)
    request = a_request(id=5, prompt_tokens=900)
    tail.taken(request, 1, a_view((0, 0), (0, 800)))
    assert tail.wait(request, 1, a_view((0, 0))) == 70


def test_the_copy_goes_where_it_has_its_first_token_soonest() -> None:
    tail = taught(5, share=9.0, cancel_tokens=0)
    request = sent(tail)
    view = a_view((900, 0), (150, 0), (200, 90), now=SECOND)
    assert tail.hedge(request, 0, (1, 2), view, a_chance()) == 2, "210 tokens are less than 250"
    assert tail.hedge(request, 0, (1,), view, a_chance()) == 1


def test_a_copy_must_be_worth_it() -> None:
    """Queued there, its own prompt and the cancel, against what is queued here and no less than what has passed."""
    for queued, cancel, now, expected in (
        (301, 100, 0, 1), (300, 100, 0, None), (301, 101, 0, None),
        (0, 100, 300 * SECOND // 1000, None), (0, 100, 301 * SECOND // 1000, 1),
    ):  # fmt: skip
        tail = taught(5, share=9.0, cancel_tokens=cancel)
        request = sent(tail)
        view = a_view((queued, 0), (100, 0), now=now)
        assert tail.hedge(request, 0, (1,), view, a_chance()) == expected, (queued, cancel, now)


def test_copies_stay_within_their_budget() -> None:
    tail = taught(*[5] * 20, share=0.1, cancel_tokens=0)
    view = a_view((10**6, 0), (0, 0), (0, 40), now=SECOND)
    spent = 0
    for number in range(200):
        request = sent(tail, id=number)
        if tail.hedge(request, 0, (1,), view, a_chance()) is not None:
            spent += 100
        assert spent <= 0.1 * (2000 + 100 * (number + 1))
    assert spent == 2200, "it is spent"
    assert tail.hedge(request, 0, (1,), view, a_chance()) is None
    tail.share += 60 / 22_000
    assert tail.hedge(request, 0, (1,), view, a_chance()) is None
    assert tail.hedge(request, 0, (2,), view, a_chance()) == 2, "60 tokens, 40 being cached"


def test_nothing_is_kept_of_who_has_ended() -> None:
    tail = taught(5)
    request = sent(tail)
    tail.ended(request)
    assert not tail._open
    assert tail.wait(request, 0, a_view((0, 0))) == 0
    assert tail.hedge(request, 0, (1,), a_view((9, 0), (0, 0)), a_chance()) is None


def test_it_is_found_by_name_and_checks_its_parameters() -> None:
    assert names("hedge") == ["tail"]
    assert build("hedge", "tail", {"quantile": 0.9, "share": 0.02}) == Tail(0.9, 0.02)
    for wrong in ({"quantile": 0.0}, {"share": -0.1}, {"cancel_tokens": -1}, {"least": 0}, {"window": 3}):
        with pytest.raises(ScenarioError, match=r"policies\.hedge\.tail"):
            build("hedge", "tail", wrong)
