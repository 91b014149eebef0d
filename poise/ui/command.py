"""The command `poise ui` after its options are parsed: serve the page until Ctrl-C."""

from __future__ import annotations

import importlib.util
import secrets
import socket
import sys
import webbrowser
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from poise.core.errors import UserError
from poise.core.extras import install
from poise.core.posix import need_posix

if TYPE_CHECKING:
    from poise.ui.options import UiOptions

EXTRA = ("starlette", "uvicorn", "jinja2")
"""Modules of the extra `ui`."""


def show_ui(options: UiOptions) -> None:
    """Serve the page; Ctrl-C ends it and the runs that are under way."""
    need_posix("poise ui")
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"poise ui: needs {', '.join(missing)}; {install('ui')}")
    import uvicorn

    from poise.ui.app import app
    from poise.ui.folder import Folder

    folder = Folder(options.folder)
    listening = _listen(options.host, options.port)
    with listening:
        port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
        page = app(folder, token, f"poise_ui_{port}", options.host, lambda: server.should_exit)
        server = uvicorn.Server(
            uvicorn.Config(
                page, loop="asyncio", http="h11", ws="none", lifespan="on", log_level="warning", access_log=False,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=3,
            )
        )  # fmt: skip
        url = f"http://{_shown(options.host)}:{port}/?token={token}"
        print(f"poise: the page is at {url}\npoise: its runs are in {folder.root}; stop with Ctrl-C", flush=True)
        if not _loopback(options.host):
            print(
                f"poise: --host {options.host}: others on the network can reach the page, in plain HTTP; "
                "whoever has its address can start runs on this machine",
                file=sys.stderr,
            )
        if options.browser:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):  # the server hears Ctrl-C itself, ends the runs, and passes it on
            server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """A socket at an address and port; UserError where there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port}: {error.strerror}; give another, or --port 0 for a free one"
        ) from None


def _shown(host: str) -> str:
    """A host as a browser on this machine calls it."""
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    return f"[{host.replace('::', '::1') if host == '::' else host}]" if ":" in host else host


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
