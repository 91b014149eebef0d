"""Who asks: key files and their errors, keys, headers, and that no key is ever shown."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import UserError
from poise.live.requests.parsed_request import BadRequest
from poise.live.requests.tenants import LONGEST, Tenant, Tenants, parse

KEYS = f"""\
tenants:
  - name: alice
    key: sk-alice
    priority: -1
    weight: 2.5
    concurrency: 8
    requests_per_minute: 60
    tokens_per_minute: 100000
  - name: bob
    sha256: {sha256(b"sk-bob").hexdigest()}
  - {{name: alice, key: sk-alice-2}}
"""
ALICE = Tenant(1, "alice", -1, 2.5, 8, 60, 100_000)


def _tenants(refuse_unknown: bool = True, trust_header: bool = False, text: str = KEYS) -> Tenants:
    return Tenants(parse(text, "keys.yaml"), refuse_unknown, trust_header)


def test_a_key_is_a_tenant() -> None:
    tenants = _tenants()
    assert [each.name for each in tenants.all] == ["default", "alice", "bob"]
    assert [each.id for each in tenants.all] == [0, 1, 2]
    assert tenants.who(b"Bearer sk-bob") == Tenant(2, "bob")
    for header in (b"bearer sk-alice", b"BEARER  sk-alice ", b"sk-alice", b"Bearer sk-alice-2"):
        found = tenants.who(header)
        assert isinstance(found, Tenant) and found.name == "alice"


def test_the_first_entry_of_a_tenant_says_what_it_may() -> None:
    assert _tenants().all[1] == ALICE


@pytest.mark.parametrize(
    "header", [None, b"", b"Bearer ", b"Bearer sk-alic", b"Bearer sk-alice x", b"Basic sk-bob", b"x" * (LONGEST + 1)]
)
def test_who_is_not_known_is_refused_or_the_default(header: bytes | None) -> None:
    refused = _tenants().who(header)
    assert isinstance(refused, BadRequest)
    assert (refused.status, refused.type, refused.code) == (401, "authentication_error", "invalid_api_key")
    assert _tenants(refuse_unknown=False).who(header) == Tenant(0, "default")


def test_a_header_names_a_tenant_only_where_it_is_trusted() -> None:
    assert isinstance(_tenants().who(None, b"bob"), BadRequest)
    trusting = _tenants(trust_header=True)
    assert trusting.who(b"Bearer sk-alice", b"bob") == Tenant(2, "bob")
    assert trusting.who(b"Bearer sk-alice", None) == trusting.all[1]
    assert isinstance(trusting.who(b"Bearer sk-alice", b"eve"), BadRequest)
    assert _tenants(refuse_unknown=False, trust_header=True).who(None, b"\xff") == Tenant(0, "default")


def test_the_default_may_have_limits_of_its_own() -> None:
    tenants = _tenants(text="- {name: a, key: k}\n- {name: default, key: d, concurrency: 2}\n", refuse_unknown=False)
    assert tenants.who(None) == Tenant(0, "default", concurrency=2)


def test_without_a_file_everybody_is_the_default() -> None:
    assert Tenants([], refuse_unknown=False).who(None) == Tenant(0, "default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "keys.yaml:1: holds no list of tenants"),
        ("- name: a\n  key: SECRET\n- key: SECRET2\n", "keys.yaml:3: name is ''; give each tenant a name"),
        ("- {name: a}\n", "keys.yaml:1: needs just one of key and sha256"),
        ("- {name: a, key: SECRET, sha256: SECRET}\n", "keys.yaml:1: needs just one of key and sha256"),
        ("- {name: a, sha256: SECRET}\n", "keys.yaml:1: sha256 is not a SHA-256"),
        ("- {name: a, key: 12345}\n", "keys.yaml:1: key is not a text; write it in quotes"),
        ("- {name: a, key: ' SECRET'}\n", "keys.yaml:1: key begins or ends with a space"),
        ("- {name: a, key: SECRET}\n- {name: b, key: SECRET}\n", "keys.yaml:2: has the key of 'a'"),
        ("- {name: a, key: SECRET}\n- {name: a, key: SECRET2, weight: 2}\n", "keys.yaml:2: is another entry of 'a'"),
        ("- {name: a, key: SECRET, wieght: 1}\n", "keys.yaml:1: unknown field; the fields are name, key"),
        ("- {name: a, key: SECRET, weight: 0}\n", "keys.yaml:1: weight is 0; write a number above 0"),
        (
            "- {name: a, key: SECRET, weight: heavy}\n",
            "keys.yaml:1: weight is not a valid number; write a number from 0",
        ),
        ("- {name: a, key: SECRET, weight: .nan}\n", "keys.yaml:1: weight is not a valid number"),
        (
            "- {name: a, key: SECRET, concurrency: -1}\n",
            "keys.yaml:1: concurrency is not a valid number; write a whole",
        ),
        ("- {name: a, key: SECRET, priority: true}\n", "keys.yaml:1: priority is True; write a whole number"),
        ("- SECRET\n", "keys.yaml:1: is not a mapping"),
        ("- SECRET: alice\n", "keys.yaml:1: unknown field"),
        ("SECRET: alice\n", "keys.yaml:1: is a mapping"),
        ("- {name: a, key: SECRET, key: SECRET2}\n", "keys.yaml:1: is not valid YAML (found duplicate key)"),
        ("- name: a\n  key: 'SECRET\n", "is not valid YAML"),
        ("- name: a\n  key: SECRET: x\n", "keys.yaml:2: is not valid YAML"),
        ("- name: a\n  key: @SECRET\n", "keys.yaml:2: is not valid YAML"),
        ("- {name: SECRET\n", "keys.yaml:2: is not valid YAML (expected ',' or '}')"),
    ],
)
def test_errors_name_line_and_cure_and_show_no_key(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(text, "keys.yaml")
    assert message in str(raised.value)
    assert "SECRET" not in str(raised.value) and "12345" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"keys\.yaml: no such file"):
        Tenants.of(tmp_path / "keys.yaml")
    (tmp_path / "keys.yaml").write_text(KEYS)
    assert Tenants.of(tmp_path / "keys.yaml").who(b"Bearer sk-alice") == ALICE


def test_nothing_that_is_kept_holds_a_key() -> None:
    tenants = _tenants()
    kept = repr([getattr(tenants, name) for name in ("_by_digest", "_by_name", "all", "numbers")])
    assert "sk-alice" not in kept and "sk-bob" not in kept


@given(st.binary(max_size=600), st.none() | st.binary(max_size=20))
def test_any_header_is_answered(authorization: bytes, header: bytes | None) -> None:
    assert isinstance(_TRUSTING.who(authorization, header), Tenant | BadRequest)


_TRUSTING = _tenants(trust_header=True)
