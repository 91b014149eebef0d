"""The table of scenario fields in docs/getting-started.md: `python -m tests.doc_fields` writes it from the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from poise.scenario.schema import Scenario
from poise.scenario.schema_workload import Generated
from poise.scenario.section import Section
from poise.scenario.serve.schema import Gateway
from tests.doc_table import Marked

PLACES: dict[type[Section], Marked] = {
    Scenario: Marked("getting-started.md", "fields"),
    Gateway: Marked("serve.md", "fields"),
}
"""For each kind of file, where its table stands."""


MANY = {"list[": "[]", "dict[": ".NAME"}
"""What stands for an entry of several."""


def sections(annotation: Any) -> list[type[Section]]:
    """The section classes within a type."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [found for part in get_args(annotation) for found in sections(part)]


def default(field: Any) -> str:
    """A field's default as YAML would have it; `needed` where there is none."""
    if field.is_required():
        return "needed"
    if sections(field.annotation) and not isinstance(field.default, str) and field.default not in (None, [], {}):
        return "as below"
    return f"`{json.dumps(field.default)}`"


def meaning(field: Any) -> str:
    """What to give, with the choices where they are few words."""
    choices = [value for value in get_args(field.annotation) if isinstance(value, str)]
    description = field.description or ""
    return f"{description}: {', '.join(choices)}" if choices else description


def rows(section: type[Section], path: str) -> Iterator[tuple[str, str, str]]:
    """(path, default, meaning) of every field: a section's own fields first, then those of the sections in it.

    What all generators take is told once, under the name SOURCE; a pool's engine has the fields of `engine`.
    """
    fields = {name: field for name, field in section.model_fields.items() if name != "provenance"}
    if issubclass(section, Generated) and section is not Generated:
        fields = {name: field for name, field in fields.items() if name not in Generated.model_fields}
    for name, field in fields.items():
        yield f"{path}{name}", default(field), meaning(field)
    for name, field in fields.items():
        inner = sections(field.annotation)
        if inner and (name != "engine" or not path):
            many = next((mark for kind, mark in MANY.items() if str(field.annotation).startswith(kind)), "")
            yield from rows(inner[0], f"{path}{name}{many}.")
        if name == "all_at_once":
            yield from rows(Generated, f"{path}SOURCE.")


def table(root: type[Section]) -> str:
    """The table as Markdown; of the policies, which all files have alike, the scenario's tells."""
    lines = ["| field | default | give |", "|---|---|---|"]
    found = [row for row in rows(root, "") if root is Scenario or not row[0].startswith("policies.")]
    lines += [f"| `{path}` | {value} | {what} |" for path, value, what in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for root, place in PLACES.items():
        place.write(table(root))
