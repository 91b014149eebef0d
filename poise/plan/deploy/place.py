"""Assigns the replicas of a fleet to hosts, devices of a host, and ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from poise.core.errors import UserError
from poise.core.spec import Device, Pool
from poise.cost.layout import HOST_DEVICES
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet

SMALLER = {"GB200": 4, "GB300": 4, "GH200-96GB": 1, "GH200-144GB": 1, "Jetson-AGX-Orin-64GB": 1, "Jetson-AGX-Thor": 1}
"""Devices of a host, where they are fewer than `HOST_DEVICES`: compute trays of NVL72 racks, boards with one device."""

STEP = 1000
"""Ports of one replica on its host."""

EVENTS, REPLAY, SIDE, RPC, MASTER, BOOTSTRAP = 500, 600, 700, 800, 801, 802
"""Offsets from a replica's HTTP port: KV events, their replay and the side channel of KV transfers (one
for each data rank), the data ranks' handshake, the hosts' rendezvous, and the bootstrap of SGLang's prefill engines."""


@dataclass(frozen=True, slots=True)
class Place:
    """One replica: its pool's index, its name, its hosts (the head first), its devices on each, and its HTTP port."""

    pool: int
    name: str
    hosts: tuple[str, ...]
    devices: range
    port: int

    @property
    def head(self) -> str:
        """The host that answers."""
        return self.hosts[0]

    @property
    def url(self) -> str:
        """The URL for requests."""
        host = f"[{self.head}]" if ":" in self.head else self.head
        return f"http://{host}:{self.port}"


def label(text: str, most: int = 28) -> str:
    """A text as a DNS label: a-z, 0-9 and -, beginning with a letter, at most `most` characters."""
    made = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    made = made if made[:1].isalpha() else f"p-{made}"
    return made[:most].strip("-")


def pool_labels(fleet: Fleet) -> list[str]:
    """The name of each pool in object names: its own, else its device and role; numbered where several share it."""
    made = ["engines"]  # which the gateway's own Service is called
    for pool in fleet.pools:
        first = label(pool.name or (pool.device.name if pool.role == "mixed" else f"{pool.role}-{pool.device.name}"))
        numbered = (f"{first}-{number}" if number > 1 else first for number in range(1, len(fleet.pools) + 2))
        made.append(next(each for each in numbered if each not in made))
    return made[1:]


def host_devices(device: Device, setting: Setting) -> int:
    """Devices of one host."""
    return setting.host_devices or SMALLER.get(device.name, HOST_DEVICES)


def spread(pool: Pool, setting: Setting) -> int:
    """Hosts of one replica: the fewest that hold equal parts of it, with whole data ranks where there are several.

    UserError where a data rank is wider than a host.
    """
    room = host_devices(pool.device, setting)
    rank = pool.tensor * pool.pipeline if pool.data > 1 else 1
    for hosts in range(1, pool.devices + 1):
        part, rest = divmod(pool.devices, hosts)
        if not rest and part <= room and part % rank == 0:
            return hosts
    raise UserError(
        f"a data rank of {rank} {pool.device.name} is wider than a host of {room}; give data 1, or a smaller tensor"
    )


def places(fleet: Fleet, setting: Setting) -> list[Place]:
    """Every replica's place: hosts are filled in the order of pools, and hold devices of one kind.

    UserError where `setting.hosts` has another number of hosts, and where ports run out.
    """
    slots: list[tuple[int, str, tuple[int, ...], range, int]] = []
    kinds: list[str] = []
    open_hosts: dict[str, tuple[int, int, int]] = {}
    for at, (pool, name) in enumerate(zip(fleet.pools, pool_labels(fleet), strict=True)):
        wide, kind, room = spread(pool, setting), pool.device.name, host_devices(pool.device, setting)
        part = pool.devices // wide
        for number in range(pool.replicas):
            host, used, count = open_hosts.get(kind, (-1, room, 0))
            if wide > 1 or used + part > room:
                host, used, count = len(kinds), 0, 0
                kinds += [kind] * wide
            slots.append((at, f"{name}-{number}", tuple(range(host, host + wide)), range(used, used + part), count))
            if wide == 1:
                open_hosts[kind] = (host, used + part, count + 1)
    names = _hosts(kinds, setting)
    return [
        Place(at, name, tuple(names[host] for host in hosts), devices, _port(setting, count))
        for at, name, hosts, devices, count in slots
    ]


def _hosts(kinds: list[str], setting: Setting) -> list[str]:
    """The names of hosts with devices of these kinds; one alone is this machine."""
    if not setting.hosts:
        return ["127.0.0.1"] if len(kinds) == 1 else list(_made(kinds))
    if len(setting.hosts) != len(kinds):
        wanted = ", ".join(f"{kinds.count(kind)} with {kind}" for kind in dict.fromkeys(kinds))
        raise UserError(f"hosts names {len(setting.hosts)}, and the plan fills {len(kinds)}: {wanted}; name as many")
    if len(set(setting.hosts)) < len(setting.hosts):
        raise UserError("hosts names one twice; give each host once")
    return list(setting.hosts)


def _made(kinds: list[str]) -> Iterator[str]:
    for at, kind in enumerate(kinds):
        yield f"{label(kind)}-{kinds[:at].count(kind)}"


def _port(setting: Setting, count: int) -> int:
    """The HTTP port of the `count`-th replica on its host."""
    port = setting.port + STEP * count
    if setting.port < 1024 or port + STEP > 65536:
        raise UserError(f"port {setting.port}: replica {count} of a host would be at {port}; give one from 1024 on")
    if port <= setting.gateway_port + 1 and setting.gateway_port < port + STEP:
        raise UserError(f"port {setting.port}: the gateway's {setting.gateway_port} lies in its range; move one")
    return port
