"""Lists of mappings in YAML or JSON files (engines, tenants), with the line of each for errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from poise.core.errors import UserError
from poise.core.yaml_aliases import refuse_explosion


class ConfigRow(NamedTuple):
    """One mapping of a file.

    where: file and line, as errors begin.  secret: whether errors must not show the values.
    """

    where: str
    fields: Mapping[str, Any]
    secret: bool = False

    def error(self, text: str) -> UserError:
        """An error that begins with the file and line."""
        return UserError(f"{self.where}: {text}")

    def only(self, known: Collection[str]) -> None:
        """UserError if it has an unknown field."""
        for name in self.fields:
            if name not in known:
                raise self.error(f"unknown field{self._shown(name)}; the fields are {', '.join(known)}")

    def text(self, name: str, default: str = "") -> str:
        """A text field."""
        value = self.fields.get(name, default)
        if not isinstance(value, str):
            raise self.error(f"{name} is not a text{self._shown(value)}; write it in quotes")
        return str(value)

    def number(self, name: str, default: float, least: float = 0.0) -> float:
        """A number field, at least `least`."""
        value = self.fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            raise self.error(f"{name} is not a valid number{self._shown(value)}; write a number from {least:g}")
        return float(value)

    def whole(self, name: str, default: int, least: int = 0) -> int:
        """A field that is a whole number, at least `least`."""
        value = self.fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(f"{name} is not a valid number{self._shown(value)}; write a whole number from {least}")
        return int(value)

    def _shown(self, value: Any) -> str:
        return "" if self.secret else f": {value!r}"


def read_text(file: Path) -> str:
    """The text of a file; UserError where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; give the path of one") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8 text") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give a file that you may read") from None


def parse_rows(text: str, name: str, section: str, secret: bool = False) -> list[ConfigRow]:
    """The rows of a YAML or JSON list, or of the list called `section` in a mapping; `name` is the file's in errors.

    secret: errors show no value of the file.
    """
    tree = _tree(text, name)
    if isinstance(tree, dict):
        if list(tree) != [section]:
            raise UserError(f"{name}:1: is a mapping; write a list, or a mapping with the one section {section!r}")
        tree = tree[section]
    if not isinstance(tree, list) or not tree:
        raise UserError(f"{name}:1: holds no list of {section}; write one entry a line, each begun with `-`")
    if type(tree) is list or tree.tag.value is not None:  # type: ignore[attr-defined]  # ruamel's lists know tags
        raise UserError(f"{name}:1: its list has a tag, which means nothing here; remove it")
    rows = []
    for place, each in enumerate(tree):
        where = f"{name}:{tree.lc.item(place)[0] + 1}"  # type: ignore[attr-defined]  # ruamel's lists know their lines
        if not isinstance(each, dict):
            raise UserError(f"{where}: is not a mapping; write one such as `- name: a`")
        if each.tag.value is not None:  # type: ignore[attr-defined]  # ruamel's mappings know tags
            raise UserError(f"{where}: has a tag, which means nothing here; remove it")
        rows.append(ConfigRow(where, each, secret))
    return rows


def _tree(text: str, name: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        message = _without_what_it_found(str(error.problem))
        raise UserError(f"{name}{line}: is not valid YAML ({message}); check quotes, colons and indentation") from None
    except RecursionError:
        raise UserError(f"{name}: lists and mappings are nested too deeply to read; write them flatter") from None
    except (YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{name}: is not valid YAML ({type(error).__name__}); remove what is not allowed") from None
    refuse_explosion(tree, text, name)
    return tree


def _without_what_it_found(problem: str) -> str:
    """YAML's description of a mistake without the text of the file, which may be a key."""
    if problem.startswith("expected"):  # and then a mark of YAML's own
        return problem.partition(", but")[0]
    return problem.partition(' "')[0].partition(" '")[0]
