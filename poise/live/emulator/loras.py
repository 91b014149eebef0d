"""The LoRA adapters of an emulated engine: by name, given at its start, or loaded and unloaded while it runs.

Checks and sentences are those of vLLM 0.32 (`entrypoints/openai/models/serving.py`). A load takes no time of its own;
the adapter then lies in host memory, and on the device while a slot is free. An unload takes the name away alone: its
weights stay until another adapter needs their place, and one loaded again under the name is another adapter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from poise.core.errors import UserError
from poise.live.emulator.refuse import Refused, invalid, missing


class Lora(NamedTuple):
    """One adapter: its number and where it came from."""

    number: int
    path: str


class Loras:
    """Adapters by name.  ranks: by number, of all that ever were.  most: the greatest rank that is taken."""

    def __init__(self, modules: tuple[str, ...], most: int) -> None:
        self.names: dict[str, Lora] = {}
        self.ranks: list[int] = []
        self._most = most
        for each in modules:
            name, _, path = each.partition("=")
            rank = self._rank(path or name)
            if rank > most:
                raise UserError(f"--lora-modules {each}: its rank {rank} is greater than --max-lora-rank {most}")
            self._enter(name, path or name, rank)

    def number(self, name: str) -> int:
        """The number of the adapter with this name, -1 where none has it."""
        found = self.names.get(name)
        return -1 if found is None else found.number

    def name(self, number: int) -> str:
        """The name of an adapter, or its number where it has been unloaded."""
        return next((name for name, lora in self.names.items() if lora.number == number), str(number))

    def load(self, body: Mapping[str, Any], models: tuple[str, ...]) -> int:
        """Enter the adapter of a request; returns its number."""
        name, path = _text(body, "lora_name"), _text(body, "lora_path")
        if not name or not path:
            raise Refused(400, "Both 'lora_name' and 'lora_path' must be provided.", "InvalidUserInput")
        if name in models:
            text = f"The lora adapter '{name}' conflicts with a served base model."
            raise Refused(400, text, "InvalidUserInput")
        if name in self.names and not body.get("load_inplace"):
            text = f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set"
            raise Refused(400, f"{text} 'load_inplace' to True.", "InvalidUserInput")
        rank = self._rank(path)
        if rank > self._most:
            text = f"LoRA rank {rank} is greater than max_lora_rank {self._most}."
            raise Refused(500, text, "InternalServerError")
        return self._enter(name, path, rank)

    def unload(self, body: Mapping[str, Any]) -> str:
        """Remove the name of the adapter of a request, and return it."""
        name = _text(body, "lora_name")
        if not name:
            raise Refused(400, "'lora_name' needs to be provided to unload a LoRA adapter.", "InvalidUserInput")
        if name not in self.names:
            raise Refused(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        del self.names[name]
        return name

    def _enter(self, name: str, path: str, rank: int) -> int:
        known = self.names.get(name)
        number = len(self.ranks) if known is None else known.number
        self.ranks[number : number + 1] = [rank]
        self.names[name] = Lora(number, path)
        return number

    def _rank(self, path: str) -> int:
        """The rank in the adapter's `adapter_config.json`, or the greatest where there is no such file."""
        try:
            rank = json.loads((Path(path) / "adapter_config.json").read_text())["r"]
        except (OSError, ValueError, KeyError, TypeError):
            return self._most
        return rank if isinstance(rank, int) and rank > 0 else self._most


def _text(body: Mapping[str, Any], name: str) -> str:
    """A field that is a text, and must be there."""
    if name not in body:
        raise missing(name, body)
    if not isinstance(body[name], str):
        raise invalid("string_type", (name,), "Input should be a valid string", body[name])
    return str(body[name])
