"""Stay until the end, then compute elsewhere what is lost: the KV cache anew, the tokens that the client has not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Wake
from poise.core.view import ClusterView


@dataclass(frozen=True, slots=True)
class Recompute:
    """Nobody is moved within the notice. Prompt and output so far are one prompt at the replica that takes over."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing is read."""
        return ()

    @property
    def resumes(self) -> bool:
        """The client keeps its tokens."""
        return True

    def leave(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """Nobody."""
        return ()
