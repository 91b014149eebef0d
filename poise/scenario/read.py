"""YAML as plain data with the line of every value; broken files give a one-line error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.yaml_aliases import refuse_explosion
from poise.scenario.place import Path as DataPath
from poise.scenario.place import Places

STUMBLES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions of ruamel besides its own errors where a file is wrong: a date in month 13, a number of 5,000 digits, a
mapping as a key, an invalid boolean."""


class Kind(NamedTuple):
    """What errors say a file should be.

    name: what it is, and where to find one.  least: what it must hold.  example: a line of it.
    """

    name: str = "a scenario (examples/ has some)"
    least: str = "at least the sections cluster and workload"
    example: str = "model: llama-3.1-8b"


SCENARIO = Kind()


def read_yaml(file: Path, name: str, kind: Kind = SCENARIO) -> tuple[dict[str, Any], Places]:
    """The mapping in `file` (called `name` in errors) as plain data, and the lines of its values."""
    text = read_text(file, name, kind)
    tree = _load(text, name)
    places = Places(name)
    if tree is None:
        raise ScenarioError(f"{name}: is empty; give {kind.least}")
    if not isinstance(tree, dict):
        raise ScenarioError(f"{name}:1: is a {_kind(tree)}; must be a mapping, as in `{kind.example}`")
    return _plain(tree, (), places), places


def parse_value(text: str, option: str) -> Any:
    """The YAML value that an override gives; ScenarioError, naming `option`, when it is not valid."""
    from ruamel.yaml.error import YAMLError

    try:
        tree = _parser().load(text)
    except (YAMLError, *STUMBLES) as error:
        raise ScenarioError(f"{option}: {text!r} is not a YAML value ({_one_line(error)}); quote or close it") from None
    refuse_explosion(tree, text, option)
    return _plain(tree, (), Places(option))


def _load(text: str, name: str) -> Any:
    """ruamel's value of `text`; ScenarioError, naming `name`, where it cannot be read."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = _parser().load(text)
    except MarkedYAMLError as error:
        raise ScenarioError(_broken(error, name, text)) from None
    except RecursionError:
        raise ScenarioError(f"{name}: lists and mappings are nested too deeply to read; write them flatter") from None
    except (YAMLError, *STUMBLES) as error:
        raise ScenarioError(
            f"{name}: is not valid YAML ({_one_line(error)}); remove what YAML does not allow"
        ) from None
    refuse_explosion(tree, text, name)
    return tree


def _parser() -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="rt", pure=True)


def read_text(file: Path, name: str, kind: Kind = SCENARIO) -> str:
    """The text of `file`; ScenarioError, naming `name`, where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError(f"{name}: no such file; give the path of {kind.name}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{name}: is a folder; give the file in it") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{name}: byte {error.start} is not UTF-8; save the file as UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read ({error.strerror}); give a file that you may read") from None


def _broken(error: Any, name: str, text: str) -> str:
    """One line about YAML that cannot be parsed."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    message = str(error.problem or error.context or "cannot be parsed")
    row = (text.splitlines() or [""])[min(line, len(text.splitlines())) - 1]
    if "\t" in row[: len(row) - len(row.lstrip())] or "'\\t'" in message:
        return f"{name}:{line}: a tab indents the line; YAML needs spaces, so write two for each level"
    if message.startswith("found duplicate key"):
        key = message.split('"')[1] if '"' in message else "?"
        return f"{name}:{line}: {key}: stands twice in the same mapping; keep one of them"
    if "another document" in message:
        return f"{name}:{line}: a second document begins; a file has one, so remove the `---`"
    return (
        f"{name}:{line}: is not valid YAML ({_one_line(message)}); check quotes, brackets, colons and indentation there"
    )


def _tag(value: Any) -> str | None:
    """The tag that a value of ruamel's has beyond those of plain lists, mappings and scalars, as `!!pairs [a: 1]`."""
    if type(value) is list:
        return "!!pairs"  # the only one that is not a list of ruamel's own
    tag: str | None = getattr(getattr(value, "tag", None), "value", None)
    return tag


def _one_line(message: object) -> str:
    return " ".join(str(message).split())[:120]


def _plain(value: Any, path: DataPath, places: Places) -> Any:
    """ruamel's value as plain dictionaries, lists, texts, numbers, booleans and null; fills `places.lines`."""
    if (tag := _tag(value)) is not None:
        raise places.error(path, f"has the tag {tag}, which means nothing here; remove it")
    if isinstance(value, dict):
        return _mapping(value, path, places)
    if isinstance(value, list):
        lines: Any = getattr(value, "lc", None)  # ruamel's lists and mappings know where they stand
        items = []
        for at, each in enumerate(value):
            places.lines[(*path, at)] = lines.item(at)[0] + 1
            items.append(_plain(each, (*path, at), places))
        return items
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    if type(value).__name__ == "ScalarBoolean":
        return bool(value)
    raise places.error(path, f"is a {_kind(value)}; write a number, a text, true or false, a list or a mapping")


def _mapping(value: Any, path: DataPath, places: Places) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, each in value.items():
        at = value.lc.data.get(key) if value.lc.data else None  # merged keys (<<) have no line of their own
        if at is not None:
            places.lines[(*path, str(key))] = at[0] + 1
        if not isinstance(key, str) and type(key) is not int:
            raise places.error((*path, str(key)), f"the key {key!r} is not a text; write the name of a field")
        plain[str(key)] = _plain(each, (*path, str(key)), places)
    return plain


def _kind(value: Any) -> str:
    names = {"CommentedSeq": "list", "date": "date", "datetime": "date", "TimeStamp": "date", "CommentedSet": "set"}
    kind = type(value).__name__
    plain = {"str": "text", "int": "number", "float": "number", "bool": "boolean"}
    return names.get(kind) or plain.get(kind) or next((w for k, w in plain.items() if k in kind.lower()), kind)
