"""Addresses of engines: which URLs are accepted, and which are refused because no engine can be there.

A gateway that forwards to any URL can be made to fetch a cloud's credentials from the metadata address (SSRF): that one
and all link-local ones are refused unless they are allowed.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from poise.core.errors import UserError

METADATA: Final = frozenset(
    {"metadata.google.internal", "metadata", "instance-data", "100.100.100.200", "fd00:ec2::254", "168.63.129.16"}
)
"""Metadata services of clouds that are not link-local, by name and address."""

Ip = IPv4Address | IPv6Address


class Engine(NamedTuple):
    """The address of one engine. name: stable, as shown and recorded.

    path: the prefix of `/v1/…`, usually empty.  server_name: the name that its certificate must have, where `host` is
    an address that the name resolved to.  labels: further properties from its source, sorted by name.
    """

    name: str
    host: str
    port: int
    tls: bool = False
    path: str = ""
    server_name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def engine(url: str, where: str, name: str = "", link_local: bool = False) -> Engine:
    """The engine at `url`; UserError, beginning with `where`, that says what is not allowed.

    name: host and port if empty.  link_local: whether link-local and metadata addresses are allowed.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UserError(f"{where}: {_shown(url)} is not a URL ({error}); write http://HOST:PORT") from None
    if any(each.isspace() or not each.isprintable() for each in url):
        raise UserError(f"{where}: {_shown(url)} has a space or a control character; write http://HOST:PORT")
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"{where}: {_shown(url)} is not an http or https URL; write http://HOST:PORT")
    if "@" in parts.netloc:
        raise UserError(f"{where}: {_shown(url)} holds a user or password; write the URL without, and the key apart")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UserError(f"{where}: {_shown(url)} holds a query or fragment; write the URL up to its path")
    why = "" if link_local else forbidden(host)
    if why:
        raise UserError(f"{where}: {_shown(url)} is refused: {why}; give an address of the engine that is not")
    tls = parts.scheme == "https"
    port = port or (443 if tls else 80)
    path = parts.path.rstrip("/").removesuffix("/v1")
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Engine(name or shown + path, host, port, tls, path)


def forbidden(host: str) -> str:
    """Why nothing is sent to a host, by name or address; empty if requests may be."""
    host = host.rstrip(".").lower().partition("%")[0]
    address = _address(host)
    if isinstance(address, str):
        return address
    if host in METADATA or (address is not None and str(address) in METADATA):
        return "it is a cloud's metadata service"
    if address is None:
        return ""
    if address.is_link_local:
        return "it is link-local, where clouds keep their metadata service"
    if address.is_unspecified or address.is_multicast:
        return "it is not the address of one machine"
    return ""


def _address(host: str) -> Ip | str | None:
    """The address that `host` spells, None for a name; an error text if it is an obfuscated address."""
    try:
        address = ip_address(host)
    except ValueError:
        last = host.rpartition(".")[2]
        hidden = last.isdigit() or last.startswith("0x")  # resolvers read 2852039166 as 169.254.169.254
        return "it spells an address in an unusual way, write four decimal numbers" if hidden else None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _shown(url: str) -> str:
    """The URL for an error, with any password removed."""
    if "@" in url:
        scheme, _, rest = url.partition("://")
        url = f"{scheme}://…@{rest.rpartition('@')[2]}"
    return repr(url[:200])
