"""Accelerators and models by name, and models from a `config.json`."""

from __future__ import annotations

from poise.catalogue.devices import bases, device, devices
from poise.catalogue.huggingface import read_config
from poise.catalogue.models import model, models

__all__ = ["bases", "device", "devices", "model", "models", "read_config"]
