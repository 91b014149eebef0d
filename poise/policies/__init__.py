"""Decisions: one folder for each slot, one file for each published system, and `Policies`, the bundle."""

from poise.policies.bundle import Policies

__all__ = ["Policies"]
