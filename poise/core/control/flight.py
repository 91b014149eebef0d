"""A request in flight: where it was sent, where else it may go, and where it is moving to."""

from __future__ import annotations

from poise.core.request import RequestView


class InFlight:
    """The control side's record of a request in flight (`view.FlightView`).

    replica: where its prompt is computed; decode: where its output is made (the same, unless a P/D pair).
    prefilled: of a P/D pair, its prompt is computed and its KV cache fetched. Only its output is left to make, and if
    the replica that computed the prompt has changed its role, it may be made there.
    fallback: replicas to try where an engine refuses it.  sent_at, first_token_at: picoseconds, -1 for a first token
    not seen.  target: where it is moving to, -1: nowhere; with `hedged` the place of its copy.
    """

    __slots__ = (
        "decode", "fallback", "first_token_at", "hedged", "prefilled", "replica", "request", "sent_at", "target",
    )  # fmt: skip

    def __init__(
        self, request: RequestView, replica: int, decode: int, fallback: tuple[int, ...], sent_at: int
    ) -> None:
        self.request = request
        self.replica = replica
        self.decode = decode
        self.fallback = fallback
        self.prefilled = False
        self.sent_at = sent_at
        self.first_token_at = -1
        self.target = -1
        self.hedged = False

    @property
    def place(self) -> int:
        """The replica that works on it now."""
        return self.decode if self.prefilled else self.replica

    @property
    def places(self) -> set[int]:
        """All replicas that know of it."""
        places = {self.decode} if self.prefilled else {self.replica, self.decode}
        return places | {self.target} if self.target >= 0 else places

    def arrive(self) -> None:
        """It has arrived where it was moving to, or only its copy is left."""
        if self.prefilled:
            self.decode = self.target
        elif self.decode == self.replica:
            self.replica = self.decode = self.target
        else:
            self.replica = self.target
        self.target = -1
