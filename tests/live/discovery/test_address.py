"""Addresses of engines: what is taken as what, and what is refused without showing a password."""

from __future__ import annotations

import pytest

from poise.core.errors import UserError
from poise.live.discovery.address import Engine, engine, forbidden


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://10.0.0.1:8000", Engine("10.0.0.1:8000", "10.0.0.1", 8000)),
        ("http://a.example", Engine("a.example:80", "a.example", 80)),
        ("https://A.example/v1/", Engine("a.example:443", "a.example", 443, tls=True)),
        ("https://a.example:8443/llm/v1", Engine("a.example:8443/llm", "a.example", 8443, tls=True, path="/llm")),
        ("http://[::1]:9000", Engine("[::1]:9000", "::1", 9000)),
    ],
)
def test_urls(url: str, expected: Engine) -> None:
    assert engine(url, "here") == expected
    assert engine(url, "here", "mine") == expected._replace(name="mine")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a:1", "is not an http or https URL"),
        ("a:8000", "is not an http or https URL"),
        ("http://", "is not an http or https URL"),
        ("", "is not an http or https URL"),
        ("http://a:99999", "is not a URL"),
        ("http://a:b", "is not a URL"),
        ("http://[::1", "is not a URL"),
        ("http://user:secret@a:1", "holds a user or password"),
        ("http://a:1/?key=1", "holds a query or fragment"),
        ("http://a:1/#x", "holds a query or fragment"),
        ("http://a:1/?", "holds a query or fragment"),
        ("http://a:1/ b", "has a space or a control character"),
        ("http://a:1/\x00", "has a space or a control character"),
        ("http://169.254.169.254/", "it is link-local"),
        ("http://[fe80::1%25eth0]:80", "it is link-local"),
        ("http://[::ffff:169.254.169.254]", "it is link-local"),
        ("http://2852039166", "spells an address in an unusual way"),
        ("http://0xA9FEA9FE/", "spells an address in an unusual way"),
        ("http://169.254.43518", "spells an address in an unusual way"),
        ("http://0251.0376.0251.0376", "spells an address in an unusual way"),
        ("http://metadata.google.internal.", "cloud's metadata service"),
        ("http://[fd00:ec2::254]", "cloud's metadata service"),
        ("http://0.0.0.0:8000", "not the address of one machine"),
        ("http://224.0.0.1", "not the address of one machine"),
    ],
)
def test_what_is_refused(url: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        engine(url, "engines.yaml:7")
    assert str(raised.value).startswith("engines.yaml:7: ") and message in str(raised.value)
    assert "secret" not in str(raised.value) and "user:" not in str(raised.value)


def test_link_local_is_taken_where_it_is_allowed() -> None:
    assert engine("http://169.254.1.1:8000", "here", link_local=True).host == "169.254.1.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "::1", "engine-0.engines.svc.cluster.local", "a1", "v1.2x"])
def test_ordinary_hosts_are_allowed(host: str) -> None:
    assert forbidden(host) == ""
