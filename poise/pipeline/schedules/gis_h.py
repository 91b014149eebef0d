"""GIS-H (Wan et al., "PipeOffload", ICML 2025, section 4): GIS in groups of half the ranks, for less memory still."""

from __future__ import annotations

from dataclasses import replace

from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.gis import gis


def gis_h(stages: int, microbatches: int, chunks: int = 2) -> Schedule:
    """Peak ((v − 1)⌈p / 2⌉ + p) / v on rank 0; m is a multiple of ⌈p / 2⌉.

    Bubble ((p − 1)(T_F + T_B) + (v − 1)(p / 2)(T_F + T_B − T_W)) / v for even p and T_W ≤ T_F, T_B.
    """
    return replace(gis(stages, microbatches, chunks, (stages + 1) // 2), name="gis_h")
