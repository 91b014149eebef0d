"""ExFlow: experts that follow one another in a token's path live on one rank, so that fewer tokens change ranks.

Yao, Anthony, Shafi, Subramoni and Panda, arXiv 2401.08383 (2024). With every token's context on every rank a token
stays where its expert is, so only the change of ranks between two layers moves it. The published integer program
places experts / ranks of each layer on each rank so that the tokens that change are fewest, from the experts that
sampled tokens passed in order.

Parameters: `sweeps` (20): the most passes over the layers. `starts` (4): placements to begin with, drawn at random
but for the first; the best answer counts. `seed` (0).

Deviation: the program of one layer is solved exactly between the placements of its two neighbours, layer after layer
until nothing changes, which finds a local optimum; its input are counts of pairs of experts instead of single tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.experts import ExpertPlacement, ExpertView
from poise.policies.kit.expert_assignment import assigned

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ExFlow:
    """Place experts by the paths of tokens. See the module for the rule and its parameters."""

    sweeps: int = 20
    starts: int = 4
    seed: int = 0

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """One copy of each expert; UserError without the flows between layers."""
        import numpy as np

        if view.flows is None:
            raise UserError("exflow: reads tokens by pairs of experts in consecutive layers; give flows")
        if view.experts % view.ranks:
            raise UserError(f"exflow: {view.experts} experts do not divide by {view.ranks} ranks; give a divisor")
        flows = view.flows
        draw = np.random.default_rng(self.seed)
        even = np.arange(view.experts) * view.ranks // view.experts
        found = []
        for start in range(self.starts):
            where = np.stack([even if start == 0 else draw.permutation(even) for _ in range(view.layers)])
            found.append(self._swept(view, where))
        return min(found, key=lambda each: each.crossings(flows))

    def _swept(self, view: ExpertView, where: NDArray[Any]) -> ExpertPlacement:
        """The placement in which no layer alone can be placed better between its neighbours."""
        import numpy as np

        assert view.flows is not None
        on = np.eye(view.ranks)[where]  # (layers × experts × ranks)
        for sweep in range(self.sweeps):
            before = on.copy()
            layers = range(view.layers) if sweep % 2 == 0 else reversed(range(view.layers))
            for layer in layers:
                gain = np.zeros((view.experts, view.ranks))
                if layer:
                    gain += view.flows[layer - 1].T @ on[layer - 1]
                if layer + 1 < view.layers:
                    gain += view.flows[layer] @ on[layer + 1]
                new = np.eye(view.ranks)[assigned(gain)]
                if (new * gain).sum() > (on[layer] * gain).sum() * (1 + 1e-12):
                    on[layer] = new
            if (on == before).all():
                break
        return ExpertPlacement(on.transpose(0, 2, 1).astype(np.int16))
