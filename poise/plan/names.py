"""The parts of an SLO in words."""

from __future__ import annotations

NAMES = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "e2e_s": "time to the end",
    "program_s": "time of a program",
}
