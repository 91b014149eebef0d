"""Stay until the end, then restart from the beginning, as engines behind a plain retry do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Wake
from poise.core.view import ClusterView


@dataclass(frozen=True, slots=True)
class Restart:
    """Move no request within the notice; recompute prompt and output of lost ones."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing is read."""
        return ()

    @property
    def resumes(self) -> bool:
        """False: the client's tokens are discarded."""
        return False

    def recover(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """No moves."""
        return ()
