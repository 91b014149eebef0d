"""Exports a layout to other trainers' settings; each file here writes one trainer's, or says why it cannot run it.

torchtitan.py   a Python file of its dataclasses, and the schedule as PyTorch's CSV where it has none of that name
megatron.py     arguments of Megatron-LM, those of the model (megatron_model.py), and a script that starts it
deepspeed.py    DeepSpeed's JSON, and Accelerate's YAML for FSDP (accelerate.py)
galvatron.py    Galvatron's JSON

Each has a `check_…` that raises ScenarioError for a layout that the trainer cannot run; the search uses it, too.
"""

from __future__ import annotations

from poise.plan.training.exports.all import EXPORTS, About, Exported, exported

__all__ = ["EXPORTS", "About", "Exported", "exported"]
