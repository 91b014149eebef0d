"""The built-in models: public `config.json` keys, read by the same reader as a user's own file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from poise.catalogue.config import Config
from poise.catalogue.huggingface import from_keys, read_config
from poise.catalogue.names import Names, key
from poise.catalogue.spelling import format_spelled, models_spelled
from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Format

_DATA = Path(__file__).with_name("models.json")
_PUBLISHED: dict[str, Format] = {"fp8": "fp8", "mxfp4": "fp4"}
"""Formats by the `quant_method` of a configuration."""

_TUNED = ("instruct", "chat", "base", "hf", "it")


@cache
def _table() -> dict[str, dict[str, object]]:
    """Aliases and config keys by repository id."""
    table: dict[str, dict[str, object]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table


@cache
def _names() -> Names:
    """The repository ids, each also without its owner, and their aliases; tuned variants share their base's shape."""
    aliases = {}
    for name, entry in _table().items():
        listed = entry.get("aliases", [])
        assert isinstance(listed, list)
        owner, bare = name.split("/", 1)
        aliases[name] = [bare, *listed, *(f"{owner}/{alias}" for alias in listed)]
    return Names(aliases, suffixes=_TUNED)


@cache
def _built_in(name: str) -> Model:
    """The built-in model with the exact repository id `name`."""
    keys = _table()[name]["config"]
    assert isinstance(keys, dict)
    owner = name.split("/", 1)[0]
    source = "made up for tests" if owner == "poise" else f"https://huggingface.co/{name}/blob/main/config.json"
    return from_keys(keys, name, source)


def published_format(name: str) -> Format:
    """The format of the weights that the repository of the built-in model `name` holds, in which engines load them.

    Variants of one shape may be published in formats of their own (`published`: Kimi-K2-Thinking's weights are INT4).
    """
    found = loose_model(name)
    if found is None:
        return "bf16"
    entry = _table()[found.name]
    config, variants = entry["config"], entry.get("published", {})
    assert isinstance(config, dict)
    assert isinstance(variants, dict)
    forms: dict[Format, list[str]] = variants
    for form, names in forms.items():
        if any(key(each) in key(name) for each in names):
            return form
    return _PUBLISHED.get(config.get("quantization_config", {}).get("quant_method", ""), "bf16")


def models() -> tuple[Model, ...]:
    """All built-in models, in the order of the list."""
    return tuple(_built_in(name) for name in _table())


def loose_model(name: str) -> Model | None:
    """The built-in model that a loose name is a spelling of; None where there is none.

    Folders, another owner, a format or a benchmark may surround a name: `nvidia/DeepSeek-R1-0528-FP4-v2`. They do
    not change its shape.
    """
    for spelling in models_spelled(name):
        found = _names().find(spelling)
        if found is not None:
            return _built_in(found)
    return None


def model(name_or_path: str | Path) -> Model:
    """The built-in model of that name, or the model that a Hugging Face `config.json` describes.

    A name is a repository id or an alias (`llama-3.1-8b`, `qwen3-32b`), in any case and punctuation; a suffix such as
    `-Instruct` may be added, because it does not change the shape. An unknown name is read as the path of a
    `config.json` or of a folder that holds one; a name wins over a folder of the same name (write `./name` for the
    folder). UserError lists the nearest names.
    """
    text = str(name_or_path)
    path = _at_home(Path(name_or_path))
    if isinstance(name_or_path, Path) or text.startswith((".", "/", "~")) or path.suffix == ".json":
        return read_config(path)
    name = _names().find(text)
    if name is not None:
        return _built_in(name)
    if path.exists():
        return read_config(path)
    meant = loose_model(text)
    if meant is not None:
        stated = format_spelled(text)
        cure = f"give {meant.name}" + (f" and {stated} as its format" if stated else "")
        raise UserError(f"model {text!r} is a variant of {meant.name}, which has its shape; {cure}")
    near = ", ".join(_names().nearest(text))
    raise UserError(f"model {text!r} is not built in; nearest are {near}; or give the path of its config.json")


def config_of(name_or_path: str | Path) -> tuple[Config, bool]:
    """The config keys of the model that `model` finds by the same name, and whether it is built in."""
    found = model(name_or_path)
    if found.name in _table() and not Path(found.source).exists():
        keys = _table()[found.name]["config"]
        assert isinstance(keys, dict)
        return Config(keys, found.name), True
    path = Path(found.source)
    return Config.load(path / "config.json" if path.is_dir() else path).text(), False


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise UserError(f"model {path}: no user of that name has a home folder; write the path in full") from None
