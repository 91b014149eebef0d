"""HTTP/1.1 over sockets: a server that hands over whole requests, and pools of connections to engines.

server     Server, Exchange (exchange.py), Limits (limits.py), bodies of errors (refuse.py)
client     Pool, Call, Address, ResponseHandler, Failure (call.py), PoolLimits (limits.py)
pure       request.py and reply.py (bytes in, messages out), header.py (heads out), sweep.py (what is overdue)
sockets    connection.py (of a client), upstream.py (to an engine), loop.py (uvloop where present)

Everything is called back; nothing is awaited between a request's first byte and its answer's last.
"""

from __future__ import annotations

from poise.live.http.call import Address, Call, Failure, ResponseHandler
from poise.live.http.exchange import Exchange
from poise.live.http.limits import Limits, PoolLimits
from poise.live.http.pool import Pool
from poise.live.http.server import Server

__all__ = ["Address", "Call", "Exchange", "Failure", "Limits", "Pool", "PoolLimits", "ResponseHandler", "Server"]
