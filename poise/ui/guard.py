"""Who may ask the page: holders of its token, by its own name, and not on behalf of another site."""

from __future__ import annotations

from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page itself may load: its own files, no script within the page."""

REPORT = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a report may do: its own scripts, of an origin of its own, so they cannot ask the page for anything."""

SAFE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
POLICY = "content-security-policy"


class Guard:
    """Passes on only what may ask `app`, and adds headers that keep other sites out.

    token: in the query `token` of the first request, and from then on in a cookie.  cookie: its name.
    host: a name by which the page may be called besides `localhost` and addresses: a name that another can point at
    this machine (DNS rebinding) is refused.
    """

    def __init__(self, app: ASGIApp, token: str, cookie: str, host: str = "localhost") -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        self._hosts = {"localhost", host.lower()} - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = QueryParams(scope["query_string"]).get("token", "")
        shows = scope["path"] == "/" and self._is(given)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    answer[name] = value
                answer.setdefault(POLICY, OWN)
                if shows:
                    answer.append("set-cookie", f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        refused = self._refused(headers, shows)
        await (refused or self._app)(scope, receive, guarded)

    def _refused(self, headers: Headers, shows: bool) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if not self._own(host):
            return PlainTextResponse("This page is not known by that name; use the address that it printed.\n", 421)
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return PlainTextResponse("Another site may not ask this page.\n", 403)
        if shows or self._is(_cookie(headers, self._cookie)):
            return None
        return PlainTextResponse("Open the whole address that `poise ui` printed, with its token.\n", 403)

    def _is(self, given: str) -> bool:
        return compare_digest(given.encode(), self._token.encode())

    def _own(self, host: str) -> bool:
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        return name in self._hosts or is_address(name)


def is_address(name: str) -> bool:
    """Whether a host is an IP address, which no one else can point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value
