"""How the text of a Program writes numbers, arguments of tasks, and sums of what values contain; none has spaces in it.

An argument is `3`, `1/2`, `0.5`, `true`, `none`, a word, a text in quotes, or several of them, as in `(0,3)`.
A sum is `1/8(w0,0,0..7) + (x,2,0)`: factors, and atoms whose last number may be a range; `nothing` is the empty sum.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from poise.core.errors import ProgramError
from poise.program.content import Atom, Atoms

Number = int | float | Fraction

FIRST = "program 1"
"""The first line of every file."""

MOST_RANKS = 100_000
"""The proof keeps a number for each task and rank."""

KIND = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
"""The name of a kind of tasks."""

_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None}
_WORD = re.compile(r"[A-Za-z_][\w\-]*(\.[\w\-]+)*", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,4000}", re.ASCII)
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})", re.ASCII)
_PARTS = re.compile(r'[(),]|"(?:[^"\\]|\\.)*"|[^(),"\s]+')
_PLAIN = re.compile(r"\(-?\d{1,18}(,-?\d{1,18})+\)", re.ASCII)
_TERM = re.compile(r"([^(]*)(\(.*\))")
_LONGEST = 1_000_000
"""Most numbers in a range."""
_DEEPEST = 20
"""Most tuples inside one another."""


def write_number(number: Any) -> str:
    """A number, exactly: floats as Python writes them, fractions as `1/3`."""
    if isinstance(number, Fraction):
        return str(number)
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ProgramError(f"{number} cannot be written; give a finite number")
        return float.__repr__(number)
    return str(int(number))


def read_number(text: str) -> Number:
    """The number that `text` writes."""
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        if "/" in text:
            return Fraction(text)
        if math.isfinite(found := float(text)):
            return found
    except (ValueError, ZeroDivisionError):
        pass
    raise ProgramError(f"{text!r} is not a number; write one, as in 3, 0.5 or 1/3")


def write_argument(argument: Any) -> str:
    """The argument of a task in parentheses; ProgramError for anything but numbers, texts, None and tuples."""
    return _item(argument) if isinstance(argument, tuple) else f"({_item(argument)})"


@lru_cache(maxsize=1 << 16)
def read_argument(text: str) -> Any:
    """The argument that `text`, parentheses included, writes."""
    if _PLAIN.fullmatch(text):
        return tuple(map(int, text[1:-1].split(",")))
    return _parsed(text, ranges=False)


def write_sum(atoms: Atoms) -> str:
    """A sum of atoms, those that differ in their last number alone as a range."""
    terms = []
    for factor, first, last in _runs(atoms):
        atom = _item(first)
        if first != last:
            atom = f"({''.join(f'{_item(each)},' for each in first[:-1])}{first[-1]}..{last[-1]})"
        terms.append(f"{'' if factor == 1 else write_number(factor)}{atom}")
    return " + ".join(terms) or "nothing"


def read_sum(text: str) -> dict[Atom, Fraction | int]:
    """The sum that `text` writes; an atom that stands twice has the sum of both factors."""
    found: dict[Atom, Fraction | int] = {}
    for term in [] if text == "nothing" else text.split(" + "):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ProgramError(f"{term!r} is not a term of a sum; write factor and atom, as in 1/8(w0,0,3), or nothing")
        factor = read_number(match[1]) if match[1] else 1
        if isinstance(factor, float):
            raise ProgramError(f"{term!r} has the factor {match[1]}; write it exactly, as in 1/8")
        for atom in _atoms(match[2]):
            found[atom] = found.get(atom, 0) + factor
    return found


def _parsed(text: str, ranges: bool) -> Any:
    """What `text` writes; with `ranges` the last number may be one."""
    parts = _PARTS.findall(text)
    if "".join(parts) != text or not parts:
        raise ProgramError(f"{text!r} is not an argument; write it as in (0,3) or (RELOAD,1,2)")
    for part in parts[:-2] if ranges else parts:
        if _RANGE.fullmatch(part):
            raise ProgramError(f"{text!r} has the range {part}; only the last number of an atom may be one")
    found, after = _read(parts, 0, text)
    if after != len(parts):
        raise ProgramError(f"{text!r} goes on behind its last parenthesis; remove {''.join(parts[after:])!r}")
    return found


def _item(item: Hashable) -> str:
    if item is None or isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str):
        plain = _WORD.fullmatch(item) and item not in _CONSTANTS
        return item if plain else json.dumps(item).replace(" ", "\\u0020")
    if isinstance(item, tuple):
        return f"({','.join(map(_item, item))}{',' * (len(item) == 1)})"
    if isinstance(item, (float, Fraction)) or hasattr(item, "__index__"):
        return write_number(item)
    raise ProgramError(f"{item!r} cannot be written as an argument; use numbers, texts, None and tuples of them")


def _read(parts: list[str], at: int, text: str, depth: int = 0) -> tuple[Any, int]:
    """The item that begins at a part, and where the next one begins."""
    if at >= len(parts) or parts[at] in "),":
        raise ProgramError(f"{text!r} lacks something before part {at + 1}; write an argument as in (0,3)")
    if parts[at] != "(":
        return _scalar(parts[at]), at + 1
    items, comma, at = [], False, at + 1
    while at < len(parts) and parts[at] != ")":
        if depth > _DEEPEST:
            raise ProgramError(f"{text[:40]!r} has more than {_DEEPEST} tuples inside one another; use fewer")
        item, at = _read(parts, at, text, depth + 1)
        items.append(item)
        if at < len(parts) and parts[at] == ",":
            comma, at = True, at + 1
        elif at < len(parts) and parts[at] != ")":
            raise ProgramError(f"{text!r} lacks a comma before {parts[at]!r}; write an argument as in (0,3)")
    if at == len(parts):
        raise ProgramError(f"{text!r} is not closed; end it with ), and leave out spaces")
    return (items[0] if len(items) == 1 and not comma else tuple(items)), at + 1


def _scalar(text: str) -> Any:
    if text[0] == '"':
        try:
            return json.loads(text)
        except ValueError:
            raise ProgramError(f"{text} is not a text in quotes; write it as in JSON") from None
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    span = _RANGE.fullmatch(text)
    if span:
        return range(int(span[1]), int(span[2]) + 1)
    return text if _WORD.fullmatch(text) else read_number(text)


def _runs(atoms: Atoms) -> Iterator[tuple[Fraction | int, Atom, Atom]]:
    """Factor, first and last atom of those that follow one another in their last number."""
    run: tuple[Fraction | int, Atom, Atom] | None = None
    for atom, factor in atoms.items():
        if run is not None and run[0] == factor and _follows(run[2], atom):
            run = (factor, run[1], atom)
            continue
        if run is not None:
            yield run
        run = (factor, atom, atom)
    if run is not None:
        yield run


def _follows(one: Atom, two: Atom) -> bool:
    if len(one) != len(two) or not one or one[:-1] != two[:-1]:
        return False
    low, high = one[-1], two[-1]
    return type(low) is int and type(high) is int and high == low + 1


def _atoms(text: str) -> Iterator[Atom]:
    """The atoms of a term: one, or as many as its range has numbers."""
    found = _parsed(text, ranges=True)
    atom: Atom = found if isinstance(found, tuple) else (found,)
    last = atom[-1] if atom else None
    if not isinstance(last, range):
        yield atom
        return
    if not 0 < len(last) <= _LONGEST:
        raise ProgramError(f"{text!r} has a range of {len(last)} numbers; write 1 to {_LONGEST}, the lower one first")
    yield from ((*atom[:-1], each) for each in last)
