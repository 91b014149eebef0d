"""Access rules of the admin port: no requests steered by another site, and the token where one is set."""

from __future__ import annotations

from hmac import compare_digest
from ipaddress import ip_address
from typing import NamedTuple

from poise.live.http.exchange import Exchange

LOCAL = "localhost"


class Refusal(NamedTuple):
    """Why a request is refused."""

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Guard:
    """Checks a request's origin and token before anything else is done with it.

    token: what `Authorization: Bearer` must hold, empty for none.  hosts: names besides `localhost` and addresses by
    which the port may be called: a name that an attacker can point at it (DNS rebinding) is refused.
    """

    def __init__(self, token: str = "", hosts: tuple[str, ...] = ()) -> None:
        self._token = token.encode()
        self._hosts = frozenset(each.lower() for each in (LOCAL, *hosts))

    @property
    def has_token(self) -> bool:
        """Whether a token is required."""
        return bool(self._token)

    def called_rightly(self, exchange: Exchange) -> Refusal | None:
        """Check the Host header: one of the port's own names or an address; browsers always send it."""
        given = exchange.header(b"host")
        if given is None or self._own(given.decode("latin-1")):
            return None
        return Refusal(421, "not known by this Host; use an address, localhost, or a name that the admin port is given")

    def known(self, exchange: Exchange) -> Refusal | None:
        """Check the token."""
        if not self._token:
            return None
        kind, _, given = (exchange.header(b"authorization") or b"").partition(b" ")
        if kind.lower() == b"bearer" and compare_digest(given.strip(), self._token):
            return None
        return Refusal(401, "the admin token is missing or wrong", ((b"www-authenticate", b"Bearer"),))

    def may_change(self, exchange: Exchange) -> Refusal | None:
        """Check a change: not on behalf of another site, nor, without a token, from another machine."""
        origin, host = exchange.header(b"origin"), exchange.header(b"host") or b""
        if origin is not None and origin not in (b"http://" + host, b"https://" + host):
            return Refusal(403, "asked on behalf of another site")
        if exchange.header(b"sec-fetch-site") not in (None, b"same-origin", b"none"):
            return Refusal(403, "asked on behalf of another site")
        if not self._token and not _loopback(exchange.peer):
            return Refusal(403, "without an admin token, changes are taken from this machine only")
        return self.known(exchange)

    def _own(self, host: str) -> bool:
        name = _name(host.lower())
        return name in self._hosts or _is_address(name)


def _name(host: str) -> str:
    """A Host header without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _loopback(peer: str) -> bool:
    return _is_address(peer) and ip_address(peer).is_loopback
