"""Exports a layout to other trainers' settings; each file here writes one trainer's, or says why it cannot run it.

torchtitan.py   a Python file of its dataclasses, and the schedule as PyTorch's CSV where it has none of that name
megatron.py     arguments of Megatron-LM
deepspeed.py    DeepSpeed's JSON, and Accelerate's YAML for FSDP (accelerate.py)
galvatron.py    Galvatron's JSON
"""

from __future__ import annotations

from poise.plan.training.exports.all import EXPORTS, Exported, exported

__all__ = ["EXPORTS", "Exported", "exported"]
