"""Identifies the tenant of a request, from its API key or a trusted header.

Keys are hashed when they are read and never kept, shown or logged; a request's key is hashed first and the hashes are
compared in constant time, so that the time taken reveals nothing about the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final, NamedTuple

from poise.live.discovery.rows import ConfigRow, parse_rows, read_text
from poise.live.requests.parsed_request import BadRequest

FIELDS: Final = (
    "name",
    "key",
    "sha256",
    "priority",
    "weight",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "min_priority",
    "min_ttft_ms",
)
DEFAULT: Final = "default"
LONGEST: Final = 512
"""Bytes of a key; longer ones are unknown without being hashed."""
MOST: Final = 10_000
"""Most tenants created by a trusted header."""


class Tenant(NamedTuple):
    """A tenant. id: dense, as in `RequestView.tenant`.

    priority: added to its requests', lower goes first.  weight: its share, relative to the others'.
    concurrency, requests_per_minute, tokens_per_minute: limits, 0 for none.
    min_priority: the most urgent that its requests may be, whatever their bodies say; None: its own `priority`.
    min_ttft_ms: the shortest deadline of their first tokens, 0 for the gateway's setting for all.
    """

    id: int
    name: str
    priority: int = 0
    weight: float = 1.0
    concurrency: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    min_priority: int | None = None
    min_ttft_ms: int = 0

    @property
    def least_priority(self) -> int:
        """The least that a request's body may add to the tenant's priority."""
        return 0 if self.min_priority is None else self.min_priority - self.priority


_UNKNOWN: Final = (bytes(32), None)


class Tenants:
    """All tenants.

    refuse_unknown: whether a request without a known key is refused (401); else it is the tenant `default`, id 0.
    trust_header: whether a header may name the tenant, for a gateway that only a trusted proxy can reach. Where no
    tenants are given, each name in the header is a tenant, up to `MOST`; further ones are the tenant `default`.
    before: the previous tenants, which keep their ids: a removed tenant may have requests in flight.
    keyed: whether requests must have keys.  numbers: ids of all names, removed ones included.
    """

    __slots__ = ("_by_digest", "_by_name", "all", "keyed", "numbers", "refuse_unknown", "trust_header")

    def __init__(
        self,
        tenants: Sequence[tuple[Tenant, bytes]],
        refuse_unknown: bool = True,
        trust_header: bool = False,
        before: Tenants | None = None,
    ) -> None:
        named: dict[str, Tenant] = {}
        for tenant, _ in tenants:
            named.setdefault(tenant.name, tenant)  # further entries only bring keys
        default = named.pop(DEFAULT, Tenant(0, DEFAULT))
        self.numbers: dict[str, int] = {DEFAULT: 0} if before is None else dict(before.numbers)
        for name in named:
            self.numbers.setdefault(name, len(self.numbers))
        self.all = tuple(each._replace(id=self.numbers[each.name]) for each in (default, *named.values()))
        self._by_name = {tenant.name: tenant for tenant in self.all}
        self._by_digest: dict[bytes, tuple[bytes, Tenant | None]] = {
            digest: (digest, self._by_name[tenant.name]) for tenant, digest in tenants
        }
        self.keyed = bool(tenants)
        self.refuse_unknown = refuse_unknown
        self.trust_header = trust_header

    @classmethod
    def of(
        cls, file: Path, refuse_unknown: bool = True, trust_header: bool = False, before: Tenants | None = None
    ) -> Tenants:
        """Tenants from a key file: a YAML list; UserError with the line of an error."""
        return cls(parse(read_text(file), str(file)), refuse_unknown, trust_header, before)

    def same(self, other: Tenants | None) -> bool:
        """Whether the tenants, keys and rules are equal, apart from tenants created by a header."""
        return other is not None and (
            (self.all, self._by_digest, self.refuse_unknown, self.trust_header)
            == (other.all, other._by_digest, other.refuse_unknown, other.trust_header)
        )

    def who(self, authorization: bytes | None, header: bytes | None = None) -> Tenant | BadRequest:
        """The tenant of a request.

        authorization: the value of the header of that name, or of `x-api-key`.  header: the value of the header that
        names a tenant, if there is one.
        """
        if header is not None and self.trust_header:
            name = header.decode("latin-1")
            named = self._by_name.get(name)
            if named is None and not self.keyed:
                return self._new(name)
            return named or self._unknown("the tenant named in the header is not known")
        if authorization is None:
            return self._unknown("no API key was given; send `Authorization: Bearer KEY`")
        scheme, _, rest = authorization.partition(b" ")
        key = rest.strip() if scheme.lower() == b"bearer" else authorization.strip()
        if len(key) > LONGEST:
            return self._unknown("the API key is not known")
        digest = sha256(key).digest()
        known, tenant = self._by_digest.get(digest, _UNKNOWN)
        if compare_digest(known, digest) and tenant is not None:
            return tenant
        return self._unknown("the API key is not known")

    def number(self, name: str) -> int:
        """The number of a tenant that another gateway names; that of `default` for an unknown one."""
        named = self._by_name.get(name)
        if named is None and self.trust_header and not self.keyed:
            named = self._new(name)
        return (named or self.all[0]).id

    def _new(self, name: str) -> Tenant:
        """Create a tenant that its proxy names for the first time."""
        if not name or len(name) > LONGEST or len(self._by_name) > MOST:
            return self.all[0]
        named = self._by_name[name] = Tenant(self.numbers.setdefault(name, len(self.numbers)), name)
        return named

    def _unknown(self, message: str) -> Tenant | BadRequest:
        if self.refuse_unknown:
            return BadRequest(401, "authentication_error", None, message, "invalid_api_key")
        return self.all[0]


def parse(text: str, name: str) -> list[tuple[Tenant, bytes]]:
    """The tenants of a key file and the SHA-256 of their keys; repeated entries of a tenant add keys."""
    found: list[tuple[Tenant, bytes]] = []
    seen: dict[bytes, str] = {}
    names: set[str] = set()
    for row in parse_rows(text, name, "tenants", secret=True):
        row.only(FIELDS)
        tenant, digest = _tenant(row), _digest(row)
        if tenant.name in names and set(row.fields) - set(FIELDS[:3]):
            raise row.error(f"is another entry of {tenant.name!r}; give it name and key alone, the rest in the first")
        names.add(tenant.name)
        if digest in seen:
            raise row.error(f"has the key of {seen[digest]!r}; give every entry a key of its own")
        seen[digest] = tenant.name
        found.append((tenant, digest))
    return found


def _tenant(row: ConfigRow) -> Tenant:
    name = row.text("name")
    if not name or not name.isprintable():
        raise row.error(f"name is {name!r}; give each tenant a name")
    priority = _rank(row, "priority") or 0
    urgent = _rank(row, "min_priority")
    if urgent is not None and urgent > priority:
        raise row.error(f"min_priority {urgent} is above priority {priority}; lower goes first, so give that or less")
    weight = row.number("weight", 1.0)
    if not weight:
        raise row.error("weight is 0; write a number above 0, the tenant's share relative to the others'")
    wholes = ("concurrency", "requests_per_minute", "tokens_per_minute", "min_ttft_ms")
    limits = {each: row.whole(each, 0) for each in wholes}
    return Tenant(0, name, priority, weight, min_priority=urgent, **limits)


def _rank(row: ConfigRow, name: str) -> int | None:
    """A field that is a priority; None where it is left out."""
    value = row.fields.get(name)
    if name in row.fields and (isinstance(value, bool) or not isinstance(value, int)):
        raise row.error(f"{name} is {value!r}; write a whole number, lower goes first")
    return value


def _digest(row: ConfigRow) -> bytes:
    """The hash of the key, or the given one; errors never show either."""
    key, given = row.text("key"), row.text("sha256")
    if bool(key) == bool(given):
        raise row.error("needs just one of key and sha256; write the key, or `sha256: ` and the key's SHA-256 in hex")
    if key:
        if len(key) > LONGEST or key != key.strip():
            raise row.error(f"key begins or ends with a space or is longer than {LONGEST}; give a plain key")
        return sha256(key.encode()).digest()
    try:
        digest = bytes.fromhex(given)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise row.error("sha256 is not a SHA-256; write 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints")
    return digest
