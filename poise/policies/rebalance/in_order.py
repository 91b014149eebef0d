"""Experts in order over ranks, the first ones again in redundant slots, as engines start."""

from __future__ import annotations

from dataclasses import dataclass

from poise.experts import ExpertPlacement, ExpertView, in_order


@dataclass(frozen=True, slots=True)
class InOrder:
    """Slot s holds expert s, modulo their number, whatever the load."""

    def rebalance(self, view: ExpertView) -> ExpertPlacement:
        """The placement that engines start with."""
        return in_order(view.layers, view.experts, view.ranks, view.slots)
