"""Classes of requests, lengths that change on the way, and cuts: what changes, what stays, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import poise as ps
from poise.core.errors import ScenarioError
from poise.workload import RequestClass, classes, cut, shift

CHAT = RequestClass(share=3, prompt_tokens=500, deadline_s=0.5, priority=-1)
BATCH = RequestClass(share=1, prompt_tokens={"lognormal": {"mean": 8000, "cv": 0.5}}, output_tokens=7, timeout_s=60)


def plain(requests: int = 4000, **more: object) -> ps.workload.Workload:
    return ps.workload.poisson(4, requests=requests, prompt_tokens=100, output_tokens=20, seed=3, **more)  # type: ignore[arg-type]


def test_every_request_is_of_one_class_and_has_what_that_says() -> None:
    found = classes(plain(), {"chat": CHAT, "batch": BATCH}, seed=3).check()
    assert found.tenant is not None and found.deadline is not None and found.timeout is not None
    assert found.priority is not None
    chat = found.tenant == 0
    assert abs(chat.mean() - 0.75) < 0.03
    assert (found.prompt[chat] == 500).all() and (found.output[chat] == 20).all()  # outputs are the source's
    assert (found.output[~chat] == 7).all()
    assert set(found.deadline[chat]) == {5 * 10**11} and set(found.deadline[~chat]) == {0}
    assert set(found.timeout[~chat]) == {60 * 10**12} and set(found.priority) == {-1, 0}
    assert (found.arrival == plain().arrival).all()


def test_one_class_more_leaves_the_lengths_of_another_as_they_were() -> None:
    two = classes(plain(), {"a": RequestClass(prompt_tokens=BATCH.prompt_tokens), "b": CHAT}, seed=3)
    one = classes(plain(), {"a": RequestClass(prompt_tokens=BATCH.prompt_tokens)}, seed=3)
    assert two.tenant is not None
    mine = two.tenant == 0
    assert (two.prompt[mine] == one.prompt[mine]).all()


def test_a_class_may_be_of_a_tenant_that_is_named() -> None:
    found = classes(plain(50), {"a": RequestClass(tenant=7), "b": RequestClass(tenant=7)})
    assert found.tenant is not None
    assert set(found.tenant) == {7}
    assert found.deadline is None and found.priority is None  # nothing was said of them


def test_classes_are_drawn_when_the_end_of_an_endless_load_is_known() -> None:
    endless = classes(ps.workload.poisson(4, prompt_tokens=100), {"chat": CHAT}, seed=3)
    assert len(endless) == 0 and endless.endless is not None
    assert set(endless.endless(20.0).prompt) == {500}


def test_no_class_and_a_share_of_nothing_are_refused() -> None:
    with pytest.raises(ScenarioError, match="there is no class; name one or more"):
        classes(plain(), {})
    with pytest.raises(ScenarioError, match=r"chat\.share is 0; it must be above 0"):
        classes(plain(), {"chat": RequestClass(share=0)})


def test_lengths_change_from_a_share_of_the_requests_on() -> None:
    found = shift(plain(100), after=0.25, prompt=0.5, output=3).check()
    assert set(found.prompt[:25]) == {100} and set(found.prompt[25:]) == {50}
    assert set(found.output[:25]) == {20} and set(found.output[25:]) == {60}
    assert set(shift(plain(10), prompt=0.001).prompt[5:]) == {1}  # a request has a token


def test_a_cut_ends_longer_requests_alone() -> None:
    some = classes(plain(), {"chat": CHAT, "batch": BATCH})
    found = cut(some, prompt_tokens=1000, output_tokens=10).check()
    assert (found.prompt == np.minimum(some.prompt, 1000)).all()
    assert (found.output == np.minimum(some.output, 10)).all()
    assert (cut(some).prompt == some.prompt).all() and (cut(some).output == some.output).all()
    with pytest.raises(ScenarioError, match="prompt_tokens is 0"):
        cut(some, prompt_tokens=0)


def test_of_known_prefixes_those_stay_that_still_fit() -> None:
    some = ps.workload.sessions(plain(20), turns=3, user_tokens=50, think_s=1)
    found = cut(some, prompt_tokens=150, output_tokens=1).check()
    assert found.prefixes is not None and some.prefixes is not None
    assert 0 < len(found.prefixes.ids) < len(some.prefixes.ids)
    assert (found.prefixes.ends <= found.prompt[found.prefixes.rows]).all()
