"""Who may use the admin port, without a socket."""

from __future__ import annotations

import pytest

from poise.live.admin.guard import Guard
from poise.live.http.exchange import Exchange


def request(peer: str = "127.0.0.1", **headers: str) -> Exchange:
    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    exchange = Exchange("POST", b"/drain/a", given, b"", 0)
    exchange.peer = peer
    return exchange


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True), ("LOCALHOST:8001", True), ("127.0.0.1:8001", True), ("[::1]:8001", True), ("[::1]", True),
        ("10.1.2.3", True), ("gateway.internal", True), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("127.0.0.1@evil.example", False), ("", False), ("[", False),
        ("\xff", False),
    ],
)  # fmt: skip
def test_only_names_of_its_own_and_addresses_lead_here(host: str, own: bool) -> None:
    refusal = Guard(hosts=("Gateway.internal",)).called_rightly(request(host=host))
    assert (refusal is None) == own
    assert refusal is None or refusal.status == 421


def test_who_says_no_host_is_no_browser() -> None:
    assert Guard().called_rightly(request()) is None


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_may_change_things_without_a_token(peer: str) -> None:
    assert Guard().may_change(request(peer)) is None


@pytest.mark.parametrize("peer", ["10.0.0.9", "fe80::1", ""])
def test_others_need_a_token_that_is_set(peer: str) -> None:
    refusal = Guard().may_change(request(peer, authorization="Bearer "))
    assert refusal is not None and refusal.status == 403
    assert Guard("t").may_change(request(peer, authorization="Bearer t")) is None
    refusal = Guard("t").may_change(request(peer))
    assert refusal is not None and refusal.status == 401


def test_a_token_does_not_help_another_site() -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec_fetch_site": "same-site"}):
        refusal = Guard("t").may_change(request(host="localhost:1", authorization="Bearer t", **headers))
        assert refusal is not None and refusal.status == 403
    same = request(
        host="localhost:1", origin="http://localhost:1", sec_fetch_site="same-origin", authorization="Bearer t"
    )
    assert Guard("t").may_change(same) is None


def test_no_token_is_kept_where_it_may_be_shown() -> None:
    assert "t0ken" not in repr(Guard("t0ken"))
