"""A Hugging Face `config.json` whose keys are read with checks: every error names the file, the key and the cure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from poise.core.errors import UserError

_NESTED = ("text_config", "language_config", "llm_config")
_INHERITED = ("model_type", "tie_word_embeddings", "vocab_size", "quantization_config")


class Config:
    """The keys of one text model.

    A key that is absent takes the model class's default; a key that is null is not set, whatever that default.
    """

    def __init__(self, keys: Mapping[str, object], where: str, defaults: Mapping[str, object] | None = None) -> None:
        self._keys = keys
        self._defaults = defaults or {}
        self.where = where

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read the file `path`; UserError where it is missing, is not JSON or is not an object."""
        try:
            keys = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); give the path of a config.json") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: is not UTF-8 text; give the path of a config.json") from error
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}: line {error.lineno} is not JSON ({error.msg}); download the file again"
            ) from error
        if not isinstance(keys, dict):
            raise UserError(f"{path}: holds no JSON object; give a model's config.json")
        return cls(keys, str(path))

    def text(self) -> Config:
        """The language model of a multi-modal configuration, or this one where nothing is nested."""
        for name in _NESTED:
            inner = self._keys.get(name)
            if isinstance(inner, dict):
                outer = {key: self._keys[key] for key in _INHERITED if key in self._keys}
                return Config({**outer, **inner}, f"{self.where}: {name}")
        return self

    def with_defaults(self, defaults: Mapping[str, object]) -> Config:
        """The same keys over the model class's `defaults`."""
        return Config(self._keys, self.where, defaults)

    def adding(self, name: str, value: object) -> Config:
        """The same keys and one more."""
        return Config({**self._keys, name: value}, self.where, self._defaults)

    def renamed(self, names: Mapping[str, str], ffn_widths: int = 0) -> Config:
        """The same keys, and under standard names what the model class calls otherwise (`Family.names`).

        ffn_widths: hidden widths that a feed-forward block has where no key states it. Falcon's `multi_query` is one
        key-value head, but where its newer form states how many.
        """
        keys = dict(self._keys)
        for standard, own in names.items():
            found: object = self._keys
            for part in own.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                keys.setdefault(standard, found)
        if keys.get("multi_query") is True and keys.get("new_decoder_architecture") is not True:
            keys["num_key_value_heads"] = 1
        hidden = keys.get("hidden_size")
        if ffn_widths and isinstance(hidden, int) and keys.get("intermediate_size") is None:
            keys["intermediate_size"] = ffn_widths * hidden
        return Config(keys, self.where, self._defaults)

    def fault(self, name: str, rule: str, cure: str = "take config.json from the model's own repository") -> UserError:
        """The error for key `name`: file, key, value, rule and cure in one line."""
        shown = repr(self._keys.get(name))
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        state = f"is {shown}" if name in self._keys else "is missing"
        return UserError(f"{self.where}: {name} {state}; {rule}; {cure}")

    def get(self, name: str) -> object:
        """The value of `name`, else the class's default, else None."""
        return self._keys.get(name, self._defaults.get(name))

    def whole(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The first of `names` that is set, as a whole number of at least `least`; UserError without a default."""
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise self.fault(name, f"a whole number of at least {least} is needed")
            return value
        if default is None:
            raise self.fault(names[0], f"a whole number of at least {least} is needed")
        return default

    def number(self, name: str) -> float:
        """The number `name`; UserError where it is not set or is none."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(name, "a number is needed")
        return float(value)

    def section(self, name: str) -> Config | None:
        """The keys within `name`, None where it is not set."""
        inner = self.get(name)
        if inner is None:
            return None
        if not isinstance(inner, Mapping):
            raise self.fault(name, "an object is needed")
        return Config(inner, f"{self.where}: {name}")

    def flag(self, name: str) -> bool:
        """The boolean `name`, false where it is not set."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.fault(name, "true or false is needed")
        return bool(value)

    def string(self, name: str) -> str:
        """The string `name`, empty where it is not set."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fault(name, "a string is needed")
        return value or ""

    def strings(self, name: str) -> list[str]:
        """The list of strings `name`, empty where it is not set."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(name, "a list of strings is needed")
        return list(value)

    def wholes(self, name: str) -> list[int]:
        """The list of whole numbers `name`, empty where it is not set."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, int) and item >= 0 for item in value):
            raise self.fault(name, "a list of whole numbers is needed")
        return list(value)
