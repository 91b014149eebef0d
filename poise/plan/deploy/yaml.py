"""Readable YAML text, with a comment that names its plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString


def dump(documents: Sequence[dict[str, Any]], comments: Iterable[str]) -> str:
    """Plain data as YAML documents in their own order, after lines of comment."""
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda data: True
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    out = StringIO()
    yaml.dump_all([_blocks(each) for each in documents], out)
    return "".join(f"# {line}\n" for line in comments) + out.getvalue()


def _blocks(value: Any) -> Any:
    """Texts of several lines as blocks."""
    if isinstance(value, dict):
        return {key: _blocks(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_blocks(each) for each in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
