"""The tables of slots and hooks in docs/write-a-policy.md: `python -m tests.doc_slots` writes them from the table."""

from __future__ import annotations

import inspect

from poise.core.slot import SLOTS, Slot
from poise.policies.find import find, names
from tests.doc_table import Marked

SLOTS_AT = Marked("write-a-policy.md", "slots")
HOOKS_AT = Marked("write-a-policy.md", "hooks")


def _call(slot: Slot) -> str:
    """The method with its arguments, as a built-in policy has it."""
    method = getattr(find(slot.name, names(slot.name)[0]), slot.verb)
    given = [each for each in inspect.signature(method).parameters if each != "self"]
    return f"{slot.verb}({', '.join(given)})"


def slots() -> str:
    """What each slot decides, when it is called, and in which worlds it acts."""
    lines = [
        "| slot | method | decides | when | acts in | built-in; without one |",
        "|---|---|---|---|---|---|",
    ]
    for slot in SLOTS.values():
        folder = f"[`{slot.verb}`](../poise/policies/{slot.verb})"
        without = f"{folder}; {slot.without}" if slot.without else folder
        worlds = ", ".join(slot.worlds)
        lines.append(f"| `{slot.name}` | `{_call(slot)}` | {slot.purpose} | {slot.when} | {worlds} | {without} |")
    return "\n".join(lines) + "\n"


def hooks() -> str:
    """What a class must have besides the method, and what it may have."""
    lines = ["| slot | name | what it is for |", "|---|---|---|"]
    for slot in SLOTS.values():
        lines += [f"| `{slot.name}` | `{name}`, needed | {what} |" for name, what in slot.also.items()]
        lines += [
            f"| `{slot.name}` | `{name}` | {what} |" for name, what in slot.hooks.items() if name not in slot.also
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SLOTS_AT.write(slots())
    HOOKS_AT.write(hooks())
