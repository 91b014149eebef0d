"""Experts on ranks, as data: which rank holds which expert of which layer, what that costs, and what bounds it.

One object serves all worlds: `ExpertPlacement` is what a policy of `poise.policies.rebalance` answers, what steps are
priced with, what a trainer runs and what is exported to engines.
"""

from poise.experts.bound import least_busiest
from poise.experts.placement import ExpertPlacement, in_order
from poise.experts.view import ExpertBalancer, ExpertView

__all__ = ["ExpertBalancer", "ExpertPlacement", "ExpertView", "in_order", "least_busiest"]
