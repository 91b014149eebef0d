"""What a gateway shares with others, workers of this machine and gateways elsewhere: from the file to connections."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from poise.core.errors import UserError
from poise.live.discovery.address import engine as place_of
from poise.live.discovery.watch import addresses
from poise.live.gateway.gateway import Gateway
from poise.live.peers.mesh import Address, Mesh
from poise.scenario.place import Path as DataPath
from poise.scenario.serve.load import LoadedGateway

RESOLVE_S = 5.0
"""Seconds between two looks at the name that lists the gateways."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """listen: where other gateways call, None for workers alone.  name: lists further gateways, None for none.

    key: what all gateways must show; empty on loopback and between workers.
    """

    listen: tuple[str, int] | None
    peers: tuple[tuple[str, int], ...]
    name: tuple[str, int] | None
    key: bytes
    period_s: float


@dataclass(frozen=True, slots=True)
class Worker:
    """One of several processes that serve a port.

    folder: with the sockets on which they reach one another.  parent: the process that started it.
    """

    number: int
    workers: int
    port: int
    folder: Path
    parent: int

    def socket(self, number: int) -> Path:
        """Where a worker listens for the others."""
        return self.folder / f"worker{number}.sock"


def sharing_of(loaded: LoadedGateway) -> Sharing | None:
    """What the file says about other gateways; None for one gateway alone. UserError for what cannot be shared."""
    gateway, places = loaded.gateway, loaded.places
    section = gateway.share
    if section is None and gateway.workers == 1:
        return None
    field: DataPath = ("workers",) if section is None else ("share",)
    if gateway.envoy is not None:
        raise places.error(field, "is not possible behind a proxy, which has one endpoint picker; remove it, or envoy")
    if gateway.policies.scaler is not None:
        raise places.error(field, "leaves each gateway a part of the requests, and a scaler must see all; remove it")
    if gateway.workers > 1 and gateway.belief.kv_bind is not None:
        text = "is one socket, and there are several workers; let engines publish, and give kv_events of each engine"
        raise places.error(("belief", "kv_bind"), text)
    if section is None:
        return Sharing(None, (), None, b"", 0.005)
    if section.listen is None:
        raise places.error(("share", "listen"), "is missing; gateways call one another, so give HOST:PORT")
    if section.dns is not None and gateway.workers > 1:
        text = "finds one port of each address, and each worker has its own; list all in share.peers"
        raise places.error(("share", "dns"), text)
    listen = _address(loaded, section.listen, ("share", "listen"))
    key = os.environ.get(section.key_env or "", "")
    if section.key_env is not None and not key:
        text = f"the environment has no {section.key_env}; set it before the gateway starts"
        raise places.error(("share", "key_env"), text)
    if not key and not _loopback(listen[0]):
        text = f"is missing, and {section.listen} can be reached by others; name a variable with a key for all gateways"
        raise places.error(("share", "key_env"), text)
    return Sharing(
        listen,
        tuple(_address(loaded, each, ("share", "peers", at)) for at, each in enumerate(section.peers)),
        None if section.dns is None else _address(loaded, section.dns, ("share", "dns")),
        key.encode(),
        section.period_s,
    )


def _address(loaded: LoadedGateway, text: str, path: DataPath) -> tuple[str, int]:
    where = f"{loaded.places.of(path)}: {'.'.join(map(str, path))}"
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{where}: {text!r} is not an address; give HOST:PORT, as in 10.0.0.2:9100")
    if path == ("share", "listen"):
        return host.strip("[]"), int(port)
    place = place_of(f"http://{text}", where)
    return place.host, place.port


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def open_mesh(
    sharing: Sharing | None, gateway: Gateway, worker: Worker | None, loaded: LoadedGateway
) -> Mesh | None:
    """Connect to all other gateways; UserError where `share.listen` is taken. Close the mesh before the gateway."""
    if sharing is None:
        return None
    gateway.api.share_sessions()
    mesh = Mesh(gateway.world, gateway.api, sharing.key, sharing.period_s)
    gateway.mesh = mesh
    if worker is not None:
        await mesh.listen(worker.socket(worker.number))
    if sharing.listen is not None:
        try:
            await mesh.listen(_own(sharing.listen, worker))
        except OSError as error:
            host, port = sharing.listen
            text = f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another port or address"
            raise loaded.places.error(("share", "listen"), text) from None
    mesh.call(_known(sharing, worker))
    return mesh


def _known(sharing: Sharing, worker: Worker | None) -> list[Address]:
    """The gateways that the file and the command line name."""
    others = () if worker is None else (worker.socket(each) for each in range(worker.workers) if each != worker.number)
    return [*sharing.peers, *others]


def _own(listen: tuple[str, int], worker: Worker | None) -> tuple[str, int]:
    """The address of this worker: each has a port of its own, counted up from the one given."""
    return listen[0], listen[1] + (0 if worker is None else worker.number)


async def follow_name(sharing: Sharing, mesh: Mesh, worker: Worker | None) -> None:
    """Call the gateways at every address of the name that lists them, until cancelled."""
    assert sharing.name is not None
    host, port = sharing.name
    while True:
        try:
            found = await addresses(host, port)
        except OSError:
            found = []  # a failing name server removes none
        if found:
            mesh.call([*_known(sharing, worker), *((each, port) for each in found)])
        await asyncio.sleep(RESOLVE_S)
