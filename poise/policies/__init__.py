"""Decisions: one folder for each slot, one file for each published system, and `Policies`, the bundle."""

from poise.policies.bundle import Policies
from poise.policies.find import names

__all__ = ["Policies", "names"]
