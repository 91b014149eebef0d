"""Stay until the end, then start from the beginning: what engines behind a plain retry do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Wake
from poise.core.view import ClusterView


@dataclass(frozen=True, slots=True)
class Restart:
    """Nobody is moved within the notice; who is lost has its prompt computed and its output made again."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing is read."""
        return ()

    @property
    def resumes(self) -> bool:
        """The client's tokens are thrown away."""
        return False

    def recover(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """Nobody."""
        return ()
