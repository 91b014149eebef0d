"""A request router for Ray Serve that uses a Poise control (Ray 2.5x to 2.60: `RequestRouter`, an alpha interface).

Ray hands each call over and sends it itself; held calls wait in `choose_replicas`. Ray reports when a replica has taken
a call and when it is done, but no tokens in between: there is no `FirstToken`, and output tokens count as 0.
Every process that calls a deployment (each proxy, each handle) has a router, and so a control, of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from poise.core.control.control import Control
from poise.core.errors import UserError
from poise.core.extras import install
from poise.core.units import SECOND
from poise.live.clock import now
from poise.live.integrations.delegated import DelegatedRequest, Replicas, body_of

try:
    from ray.serve.exceptions import BackPressureError
    from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica
except ModuleNotFoundError as error:
    raise UserError(f"the Ray integration needs {error.name}; {install('ray')}") from None

GRACE_S: Final = 1.0
"""Seconds after a call's end in which its acceptance may still be reported: both come from threads of Ray's."""

log = logging.getLogger("poise.integrations")


class ControlRouter(RequestRouter):  # type: ignore[misc]  # Ray has no types here
    """Chooses replicas as a control decides, which `initialize_state` of a subclass hands to `begin`."""

    def begin(self, control: Control) -> None:
        """Decide with a control whose replicas are slots, none of them up."""
        self._handed: dict[str, DelegatedRequest] = {}
        self._choices = Replicas(control, self._later)

    @property
    def max_num_routing_tasks(self) -> int:
        """Calls that may wait for a choice at once: all of them, since Control queues them."""
        return 1 << 20

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replica chosen for a call, then those to try after it, each a rank of its own."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True  # where none of them had room
        call, metadata = pending_request.metadata.internal_request_id, pending_request.metadata
        self._done(call)  # Ray asks again: no replica took it
        body = body_of((*pending_request.args, *pending_request.kwargs.values()), metadata.multiplexed_model_id or "*")
        decided = asyncio.Event()
        handed = self._handed[call] = self._choices.ask(body, decided.set)

        def settled(future: asyncio.Future[Any]) -> None:
            if future.cancelled():  # its caller left
                self._done(call)
            decided.set()

        pending_request.future.add_done_callback(settled)
        await decided.wait()
        if handed.status and not pending_request.future.done():
            self._refuse(pending_request, handed)
        if pending_request.future.done():  # Ray sees that only when it has somewhere to go
            return [candidate_replicas]
        replicas = self.curr_replicas
        return [[replica] for name in handed.replicas for replica in replicas.values() if _name(replica) == name]

    def _refuse(self, pending_request: PendingRequest, handed: DelegatedRequest) -> None:
        """Ray's own error, which its proxies answer with this status."""
        self._done(pending_request.metadata.internal_request_id)
        held = len(self._choices.world.control.held)
        log.info("a call was refused: %s", handed.reason)
        pending_request.future.set_exception(BackPressureError(held, held, handed.status, handed.retry_after_s or None))

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """A replica has taken a call, and may be done with it already."""
        call = pending_request.metadata.internal_request_id
        handed = self._handed.get(call)
        if handed is not None:
            handed.taken(replica_id.unique_id)
            if handed.over:
                self._done(call)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A replica has finished or refused a call, or is dead, which Ray reports next.

        Then Ray asks again, or the caller has left.
        """
        handed = self._handed.get(internal_request_id)
        if handed is None:
            return
        handed.ended.add(replica_id.unique_id)
        if handed.over:
            asyncio.get_running_loop().call_soon(self._done, internal_request_id)
        elif not handed.holder:
            self._later(now() + round(GRACE_S * SECOND), lambda: self._expire(internal_request_id, handed))

    def _expire(self, call: str, handed: DelegatedRequest) -> None:
        if self._handed.get(call) is handed and not handed.holder:
            self._done(call)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """These replicas run now."""
        super().update_replicas(replicas)
        for name in self._choices.known(_name(replica) for replica in replicas):
            log.error("no slot is left for replica %s: raise `slots`", name)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A replica is dead."""
        super().on_replica_actor_died(replica_id)
        self._choices.died(replica_id.unique_id)

    def _done(self, call: str) -> None:
        handed = self._handed.pop(call, None)
        if handed is not None:
            handed.completed()

    def _later(self, at: int, call: Callable[[], None]) -> Any:
        return asyncio.get_running_loop().call_later(max(0.0, (at - now()) / SECOND), call)


def _name(replica: RunningReplica) -> str:
    name: str = replica.replica_id.unique_id
    return name
