"""Stay until the end, then recompute elsewhere: the KV cache, and the tokens that the client does not have.

Engines of prefill/decode pairs compute again what a transfer failed to bring (vLLM's `kv_load_failure_policy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poise.core.action import Move, Wake
from poise.core.view import ClusterView


def check_patience(patience_s: float) -> None:
    """ValueError for one below 0."""
    if patience_s < 0:
        raise ValueError(f"patience_s {patience_s:g} must be at least 0; 0 waits for KV as long as it takes")


@dataclass(frozen=True, slots=True)
class Recompute:
    """Move no request within the notice. Prompt and output so far are one prompt at the replica that takes over.

    patience_s: seconds after which KV on its way is given up, and computed where it should have arrived; 0: never.
    """

    patience_s: float = 0.0

    def __post_init__(self) -> None:
        check_patience(self.patience_s)

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing is read."""
        return ()

    @property
    def resumes(self) -> bool:
        """The client keeps its tokens."""
        return True

    def recover(self, replica: int, gone_at: int, cluster: ClusterView) -> Sequence[Move | Wake]:
        """No moves."""
        return ()
