"""Intervals of predictions: how far measured values lie from predicted ones, by what is known of the conditions."""

from poise.intervals.conditions import Conditions
from poise.intervals.interval import Interval
from poise.intervals.shipped import interval_of

__all__ = ["Conditions", "Interval", "interval_of"]
