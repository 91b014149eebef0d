"""Which links a transfer between two ranks uses, and how fast they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from poise.core.errors import ScheduleError

Path = tuple[int, ...]


@dataclass(frozen=True)
class Wiring:
    """Links of the ranks of one pipeline.

    bytes_per_s: of each link, one way.  node: of each rank.  out, into: the link by which a rank's transfers leave
    its node, and enter it.  inside_out, inside_in: the same within the node.  latency_s: of a transfer within a node,
    and between two.  pairs: links of single pairs of ranks (measured ones), which go before all others.  copies: by
    the name of a lane (`d2h`, `h2d`, `disk`) the link of each rank for copies to other tiers.
    """

    bytes_per_s: tuple[float, ...]
    node: tuple[int, ...]
    out: tuple[int, ...]
    into: tuple[int, ...]
    inside_out: tuple[int, ...]
    inside_in: tuple[int, ...]
    latency_s: tuple[float, float] = (0.0, 0.0)
    pairs: tuple[tuple[int, int, int], ...] = ()
    copies: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @classmethod
    def nodes(
        cls, ranks: int, per_node: int = 1, *, scaleup_bw: float, scaleout_bw: float, ranks_per_nic: int = 1,
        latency_s: tuple[float, float] = (0.0, 0.0),
    ) -> Wiring:  # fmt: skip
        """Nodes of `per_node` ranks each: a port of its own for every rank inside, NICs that some ranks share outside.

        scaleup_bw: bytes/s of a rank's port within the node.  scaleout_bw: bytes/s of a NIC.  Where other pipelines of
        the same job use the same NIC at the same time, give the part of it that is left to this one.
        """
        if min(ranks, per_node, ranks_per_nic) < 1 or min(scaleup_bw, scaleout_bw) <= 0:
            raise ScheduleError(
                f"wiring: {ranks} ranks, {per_node} in a node, {ranks_per_nic} to a NIC, {scaleup_bw:g} and "
                f"{scaleout_bw:g} bytes/s; each must be above 0"
            )
        node = tuple(rank // per_node for rank in range(ranks))
        nic = [(rank // per_node, rank % per_node // ranks_per_nic) for rank in range(ranks)]
        number = {each: at for at, each in enumerate(sorted(set(nic)))}
        ports = range(ranks)
        return cls(
            bytes_per_s=(scaleup_bw,) * (2 * ranks) + (scaleout_bw,) * (2 * len(number)),
            node=node,
            out=tuple(2 * ranks + 2 * number[each] for each in nic),
            into=tuple(2 * ranks + 2 * number[each] + 1 for each in nic),
            inside_out=tuple(2 * port for port in ports),
            inside_in=tuple(2 * port + 1 for port in ports),
            latency_s=latency_s,
        )

    @classmethod
    def measured(cls, bytes_per_s: Sequence[Sequence[float]], latency_s: float = 0.0) -> Wiring:
        """A link of its own for every ordered pair of ranks, from a matrix of measured bandwidths.

        Transfers of one rank to two others then do not share anything, as such measurements take them one by one. The
        diagonal is the bandwidth to a rank's copies in other pipelines; 0 where there are none.
        """
        count = len(bytes_per_s)
        if any(len(row) != count for row in bytes_per_s):
            raise ScheduleError(f"wiring: {count} rows of bandwidths must have {count} values each")
        pairs = [(here, there) for here in range(count) for there in range(count)]
        wrong = [(a, b) for a, b in pairs if a != b and not bytes_per_s[a][b] > 0]
        if wrong:
            a, b = wrong[0]
            raise ScheduleError(f"wiring: {bytes_per_s[a][b]!r} bytes/s from rank {a} to rank {b}; give more than 0")
        own = tuple((a, b, a * count + b) for a, b in pairs if a != b)
        links = tuple(float(bytes_per_s[a][b]) for a, b in pairs)
        loops = tuple(rank * (count + 1) for rank in range(count))
        return cls(links, tuple(range(count)), loops, loops, loops, loops, (latency_s, latency_s), own)

    def with_copies(self, bytes_per_s: Mapping[str, float]) -> Wiring:
        """The same with a link of each rank for the copies of each lane: `{"d2h": 25e9, "h2d": 25e9}`."""
        links, ranks = self.bytes_per_s, len(self.node)
        copies = tuple(each for each in self.copies if each[0] not in bytes_per_s)
        for lane, speed in bytes_per_s.items():
            if not speed > 0:
                raise ScheduleError(f"wiring: {speed!r} bytes/s for the copies of lane {lane}; give more than 0")
            copies += ((lane, tuple(range(len(links), len(links) + ranks))),)
            links += (float(speed),) * ranks
        return replace(self, bytes_per_s=links, copies=copies)

    def copy(self, rank: int, lane: str) -> Path:
        """The link for a rank's copies on a lane; none where there is none."""
        return next(((links[rank],) for name, links in self.copies if name == lane), ())

    def path(self, here: int, there: int) -> Path:
        """The links of a transfer from rank `here` to rank `there`; none where they are one."""
        if here == there:
            return ()
        if (own := self._own.get((here, there))) is not None:
            return (own,)
        if self.node[here] == self.node[there]:
            return self.inside_out[here], self.inside_in[there]
        return self.out[here], self.into[there]

    def outside(self, rank: int) -> Path:
        """The links of a collective with a rank's copies in other pipelines, which sends and receives at once."""
        path = tuple({self.out[rank], self.into[rank]})
        if not all(self.bytes_per_s[link] > 0 for link in path):
            raise ScheduleError(f"wiring: rank {rank} has no bandwidth to other pipelines; give it on the diagonal")
        return path

    def latency(self, here: int, there: int) -> float:
        """Seconds that a transfer takes besides its bytes."""
        return 0.0 if here == there else self.latency_s[self.node[here] != self.node[there]]

    @cached_property
    def _own(self) -> dict[tuple[int, int], int]:
        return {(here, there): link for here, there, link in self.pairs}
