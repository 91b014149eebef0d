"""The kernels of a layer of experts (`poise.program.expert_layer`) on tensors, whole, in chunks or in tiles.

Ranks are threads of one process; tensors keep their history across them, so a backward on the outputs of all ranks
gives the gradients of all experts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from poise.program import Task
from poise.runtime.program.inproc import Awaited, InProcess

Routing = tuple[Tensor, Tensor]
"""(tokens × experts for a token) numbers of experts, and their gates."""


class Pairs(NamedTuple):
    """Tokens of a rank for experts of one node: rows (pairs × width), which token each is, its expert and gate."""

    rows: Tensor
    tokens: Tensor
    experts: Tensor
    gates: Tensor
    whole: int
    """Tokens of the chunk from which they are."""


class Weights(NamedTuple):
    """A rank's part of its node's experts: (experts × width × part) up, (experts × part × width) down."""

    first: int
    """The number of its first expert."""
    up: Tensor
    down: Tensor


Brought = dict[int, Pairs]
"""By rank of origin."""


class ExpertKernels:
    """The kernels of one rank. route: of a rank's tokens.  spread: the numbers of nodes, and of ranks in each."""

    def __init__(
        self, transport: InProcess, weights: Weights, route: Callable[[Tensor], Routing], spread: tuple[int, int],
        experts: int,
    ) -> None:  # fmt: skip
        self.transport, self.weights, self.route = transport, weights, route
        self.nodes, self.local = spread
        self.of_a_node = experts // self.nodes
        self._counts: dict[tuple[Any, ...], int] = {}
        self.table: Mapping[str, Callable[[Task, Sequence[Any]], Any]] = {
            "split": lambda task, reads: tuple((each,) for each in reads[0][0].chunk(len(task.writes))),
            "route": lambda task, reads: tuple({transport.rank: each} for each in self._cut(reads[0][0])),
            "dispatch": self._dispatch,
            "token_gather": self._gather,
            "up": lambda task, reads: ({rank: self._up(pairs) for rank, pairs in reads[0].items()},),
            "down": self._down,
            "token_scatter": self._scatter,
            "combine": self._combine,
            "join": self._join,
            "add": lambda task, reads: ((sum(each[0] for each in reads),),),
            "dense": lambda task, reads: ((torch.tanh(reads[0][0]),),),
            "send": self._send,
            "recv": self._receive,
        }  # fmt: skip

    def _cut(self, rows: Tensor) -> list[Pairs]:
        """The pairs of each node."""
        experts, gates = self.route(rows)
        found = []
        for node in range(self.nodes):
            token, slot = torch.nonzero(experts // self.of_a_node == node, as_tuple=True)
            found.append(Pairs(rows[token], token, experts[token, slot], gates[token, slot], len(rows)))
        return found

    def _dispatch(self, task: Task, reads: Sequence[Any]) -> Awaited:
        own = task.group.index(task.rank)
        return self._together(
            task, self._cut(reads[0][0]), lambda met: {rank: met[rank][own] for rank in task.group}
        )  # fmt: skip

    def _gather(self, task: Task, reads: Sequence[Any]) -> Awaited:
        return self._together(
            task, reads[0], lambda met: {rank: each for one in task.group for rank, each in met[one].items()}
        )  # fmt: skip

    def _up(self, pairs: Pairs) -> Pairs:
        up = self.weights.up[pairs.experts - self.weights.first]
        return pairs._replace(rows=torch.tanh(torch.einsum("nh,nhf->nf", pairs.rows, up)))

    def _down(self, task: Task, reads: Sequence[Any]) -> Sequence[Any]:
        """All columns; where there are several chunks of them, as all tokens are there, one."""
        _, chunk, chunks = task.arg
        columns = self.weights.down.chunk(chunks, dim=2)[chunk] if len(reads) == self.nodes > 1 else self.weights.down
        whole: Brought = {}
        for each in reads:
            for rank, pairs in each.items():
                down = columns[pairs.experts - self.weights.first]
                whole[rank] = pairs._replace(rows=torch.einsum("nf,nfh->nh", pairs.rows, down))
        return (whole,)

    def _scatter(self, task: Task, reads: Sequence[Any]) -> Awaited:
        own = [rank for rank in reads[0] if rank % self.local == task.rank % self.local]

        def summed(met: dict[int, Brought]) -> Brought:
            return {
                rank: met[task.rank][rank]._replace(rows=_sum(met[one][rank].rows for one in task.group))
                for rank in own
            }

        return self._together(task, reads[0], summed)

    def _combine(self, task: Task, reads: Sequence[Any]) -> Awaited:
        def added(met: dict[int, Brought]) -> tuple[Tensor]:
            brought = [met[one][task.rank] for one in task.group]
            whole = brought[0].rows.new_zeros(brought[0].whole, brought[0].rows.shape[1])
            for each in brought:
                whole = whole.index_add(0, each.tokens, each.rows * each.gates[:, None])
            return (whole,)

        return self._together(task, reads[0], added)

    def _join(self, task: Task, reads: Sequence[Any]) -> Sequence[Any]:
        """Chunks of columns if they are not as wide as tokens, else of tokens."""
        width = self.weights.up.shape[1]
        return ((torch.cat([each[0] for each in reads], dim=int(reads[0][0].shape[1] < width)),),)

    def _send(self, task: Task, reads: Sequence[Any]) -> Sequence[Any]:
        self.transport.room.put(task.group, reads[0])
        return ()

    def _receive(self, task: Task, reads: Sequence[Any]) -> Awaited:
        mail, room = self.transport.room.mail(task.group), self.transport.room
        return Awaited(room, task.rank, lambda: bool(mail), lambda: (mail.popleft(),), task.group[0])

    def _together(self, task: Task, content: Any, take: Callable[[dict[int, Any]], Any]) -> Awaited:
        """All members bring something, and each takes what it needs of it."""
        room, place = self.transport.room, (task.lane, task.group)
        self._counts[place] = self._counts.get(place, 0) + 1
        met = room.meet((*place, self._counts[place]), task.rank, content)
        other = next((rank for rank in task.group if rank != task.rank), task.rank)
        return Awaited(room, task.rank, lambda: len(met) == len(task.group), lambda: (take(met),), other)


def _sum(tensors: Any) -> Tensor:
    return torch.stack([*tensors]).sum(0)
