"""Formulas of claims: arithmetic over figures of runs, as in ratio(load['vLLM'].ttft_s.p99, load['ours'].ttft_s.p99).

`load` is a set of runs, a sweep or a search by name; `load['vLLM']` is one of its labels (without, all of them one
after another), and what follows the figure. That is a row for each place of the axis, of which [0.5] takes the place
at 0.5 and [1:] those from the second on; each has a value for each seed. Arithmetic goes seed by seed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poise.claims.answer import Ratio, Value
from poise.claims.sweep import ratio, times, value_of
from poise.core.errors import UserError
from poise.report.intervals import Interval, over_seeds
from poise.report.wording import significant


class Table(Protocol):
    """Figures by label, place and seed."""

    @property
    def labels(self) -> Sequence[str]:
        """The labels that have figures."""
        ...

    @property
    def places(self) -> Sequence[float]:
        """The places of the axis."""
        ...

    def seeds(self, label: str, place: float, path: str) -> list[float]:
        """A figure of each seed."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """A figure at each place (rows) of each seed (columns)."""

    at: tuple[float, ...]
    values: NDArray[np.float64]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Path:
    """The figures that a formula is about to name: a table, labels of it, and the path so far."""

    table: Table
    labels: tuple[str, ...]
    path: tuple[str, ...] = ()

    def row(self) -> Row:
        """The figures, label by label."""
        at = [(label, place) for label in self.labels for place in self.table.places]
        path = ".".join(self.path)
        values = [self.table.seeds(label, place, path) for label, place in at]
        return Row(tuple(place for _, place in at), np.array(values, float), tuple(label for label, _ in at))


Names = Mapping[str, Table | ast.expr]
"""What a formula may name: tables, and other formulas."""


def parsed(text: str) -> ast.expr:
    """The tree of a formula; UserError where it is none."""
    try:
        return ast.parse(f"({text.strip()})", mode="eval").body
    except SyntaxError as error:
        raise UserError(
            f"{text!r} is no formula ({error.msg}); give one as in ratio(load['a'].ttft_s.p99, …)"
        ) from None


def figures(tree: ast.AST) -> set[tuple[str, str]]:
    """The tables of a formula with the paths of their figures."""
    found = set()
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            path, at = [node.attr], node.value
            while isinstance(at, ast.Attribute):
                path, at = [at.attr, *path], at.value
            root = at.value if isinstance(at, ast.Subscript) else at
            if isinstance(root, ast.Name):
                found.add((root.id, ".".join(path)))
    return found


def of_label(table: str, label: str, tree: ast.expr, names: Names) -> ast.expr:
    """A formula of which every name that is not among `names` is a figure of one label of a table."""

    class Figures(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            return ast.Call(node.func, [self.visit(each) for each in node.args], [])

        def visit_Name(self, node: ast.Name) -> ast.expr:
            return (
                node
                if node.id in names
                else ast.Attribute(ast.Subscript(ast.Name(table), ast.Constant(label)), node.id)
            )

    found: ast.expr = Figures().visit(deepcopy(tree))
    return found


def evaluated(tree: ast.expr, names: Names) -> Any:
    """The value of a formula: numbers, ratios and intervals, alone or in lists, or whether something is so."""
    found = _plain(_row(_Reader(names).read(tree)))
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], bool) else found


def evaluated_row(tree: ast.expr, names: Names) -> Row:
    """The figures of a formula that ends in figures; UserError for another."""
    found = _row(_Reader(names).read(tree))
    if not isinstance(found, Row):
        raise UserError(f"{ast.unparse(tree)} is no figure at each place; give arithmetic over figures alone")
    return found


def worded(tree: ast.expr, names: Names) -> str:
    """The value of a formula in words; numbers at places of a table with what they are of."""
    found = _row(_Reader(names).read(tree))
    return _table(found) if isinstance(found, Row) else in_words(_plain(found))


def _table(row: Row) -> str:
    """Numbers with their places, those of each label after one another."""
    _plain(row)
    labels, places = dict.fromkeys(row.labels), dict.fromkeys(row.at)
    lines = []
    for label in labels or [""]:
        mine = [at for at in range(len(row.at)) if not row.labels or row.labels[at] == label]
        texts = [(row.at[at], in_words(_plain(row.values[at, 0]))) for at in mine]
        each = ", ".join(text if len(places) < 2 else f"{text} at {_place(place)}" for place, text in texts)
        lines.append(f"{label}: {each}" if label else each)
    return "; ".join(lines)


def _place(place: float) -> str:
    return f"{place:,.0f}" if place == int(place) else significant(place)


def in_words(found: Any) -> str:
    """A value in words."""
    if isinstance(found, list):
        return ", ".join(map(in_words, found))
    if isinstance(found, Ratio):
        return times(found)
    if isinstance(found, Interval):
        return value_of(found)
    if found is None or isinstance(found, bool):
        return {True: "yes", False: "no", None: "too close to say"}[found]
    return significant(found, 4)


def _plain(found: Any) -> Any:
    """Numbers of numpy as numbers of Python, and lists without lists in them."""
    if found is None or isinstance(found, Ratio | Interval | bool):
        return found
    if isinstance(found, np.bool_):
        return bool(found)
    if isinstance(found, np.ndarray | list | tuple):
        flat = [_plain(each) for each in found]
        return [one for each in flat for one in (each if isinstance(each, list) else [each])]
    if isinstance(found, Row) and found.values.shape[1] == 1:
        return _plain(found.values[:, 0])
    if isinstance(found, Row | _Path):
        raise UserError("a formula ends in a figure of every seed; take its mean, over, or ratio to another")
    return float(found)


class _Reader:
    """Evaluates trees under names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.known: dict[str, Any] = {}

    def read(self, node: ast.expr) -> Any:
        """The value of a node."""
        reader = getattr(self, f"_{type(node).__name__.lower()}", None)
        if reader is None:
            raise UserError(f"{ast.unparse(node)!r} has no place in a formula; give arithmetic, figures and functions")
        return reader(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id not in self.names:
            raise UserError(f"{node.id!r} is unknown to the formula; give one of {', '.join(self.names)}")
        found = self.names[node.id]
        if not isinstance(found, ast.expr):
            return _Path(found, tuple(found.labels))
        if node.id not in self.known:
            self.known[node.id] = self.read(found)
        return self.known[node.id]

    def _attribute(self, node: ast.Attribute) -> Any:
        base = self.read(node.value)
        if not isinstance(base, _Path):
            raise UserError(f"{ast.unparse(node)!r} is no figure; give it of a table, as in load['ours'].ttft_s.p99")
        return _Path(base.table, base.labels, (*base.path, node.attr))

    def _subscript(self, node: ast.Subscript) -> Any:
        base = self.read(node.value)
        if isinstance(node.slice, ast.Slice):
            ends = [None if end is None else self.read(end) for end in (node.slice.lower, node.slice.upper)]
            return _part(_row(base), slice(*ends))
        at = self.read(node.slice)
        if isinstance(at, str) and isinstance(base, _Path) and not base.path:
            if at not in base.table.labels:
                raise UserError(f"{at!r} is no label; give one of {', '.join(base.table.labels)}")
            return _Path(base.table, (at,))
        row = _row(base)
        if isinstance(row, Row):
            return _picked(row, at)
        return row[int(at)]

    def _list(self, node: ast.List) -> list[Any]:
        found = [_exact(_row(self.read(each))) for each in node.elts]
        return [one for each in found for one in (each if isinstance(each, list | np.ndarray) else [each])]

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = _row(self.read(node.operand))
        if isinstance(node.op, ast.Not):
            return not _truth(value)
        return _both(operator.sub, 0.0, value)

    def _binop(self, node: ast.BinOp) -> Any:
        return _both(_OPERATORS[type(node.op)], _row(self.read(node.left)), _row(self.read(node.right)))

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.read(node.body if _truth(self.read(node.test)) else node.orelse)

    def _boolop(self, node: ast.BoolOp) -> bool:
        combine = all if isinstance(node.op, ast.And) else any
        return combine([_truth(self.read(each)) for each in node.values])

    def _compare(self, node: ast.Compare) -> Any:
        values = [_row(self.read(each)) for each in (node.left, *node.comparators)]
        found = [
            _both(_COMPARED[type(op)], one, two) for op, (one, two) in zip(node.ops, pairwise(values), strict=True)
        ]
        return np.logical_and.reduce(found) if len(found) > 1 else found[0]

    def _call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in FUNCTIONS:
            raise UserError(f"{name!r} is no function of a formula; give one of {', '.join(FUNCTIONS)}")
        return FUNCTIONS[name](*[_row(self.read(each)) for each in node.args])


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
}  # fmt: skip


def _row(found: Any) -> Any:
    """The figures that are named, if any are."""
    return found.row() if isinstance(found, _Path) else found


def _exact(found: Any) -> Any:
    """Figures that have one value at each place as a list of them."""
    return found.values[:, 0] if isinstance(found, Row) and found.values.shape[1] == 1 else found


def _part(row: Any, at: slice) -> Any:
    return Row(row.at[at], row.values[at], row.labels[at]) if isinstance(row, Row) else row[at]


def _truth(found: Any) -> bool:
    """Whether something is so, alone or in a list of one."""
    plain = _plain(_row(found))
    if isinstance(plain, list) and len(plain) != 1:
        raise UserError("and, or and if ask about several things at once; take all or any of them")
    return bool(plain[0] if isinstance(plain, list) else plain)


def _picked(row: Row, at: Any) -> Row:
    """What of figures is of a label, or at a place."""
    known, what = (row.labels, "label") if isinstance(at, str) else (row.at, "place of the axis")
    here = [each for each, own in enumerate(known) if own == at]
    if not here:
        raise UserError(f"{at!r} is no {what}; give one of {', '.join(map(str, dict.fromkeys(known)))}")
    labels = tuple(row.labels[each] for each in here) if row.labels else ()
    return Row(tuple(row.at[each] for each in here), row.values[here], labels)


def _both(what: Callable[[Any, Any], Any], one: Any, two: Any) -> Any:
    """An operation between rows, lists and numbers, entry by entry."""
    one, two = (np.array(each) if isinstance(each, list) else each for each in (one, two))
    if not isinstance(one, Row) and not isinstance(two, Row):
        return what(one, two)
    of = max((each for each in (one, two) if isinstance(each, Row)), key=lambda each: len(each.at))
    values = [each.values if isinstance(each, Row) else _column(each, len(of.at)) for each in (one, two)]
    labels = [each.labels for each in (one, two) if isinstance(each, Row) and len(each.at) == len(of.at)]
    return Row(of.at, what(*values), of.labels if len({*labels}) == 1 else ())


def _column(found: Any, places: int) -> Any:
    """Numbers beside figures: those of a list with one for each place are of all its seeds."""
    return found[:, None] if isinstance(found, np.ndarray) and found.shape == (places,) else found


# Functions -----------------------------------------------------------------------------------------------------------


def _ratio(one: Row, other: Row) -> list[Ratio]:
    """How many times as much the first has as the second, at each place, over seeds."""
    rows = max(len(one.at), len(other.at))
    values = [np.broadcast_to(each.values, (rows, each.values.shape[1])) for each in (one, other)]
    return [ratio(base.tolist(), more.tolist()) for more, base in zip(*values, strict=True)]


def _over(row: Row) -> list[Interval]:
    """The mean over seeds with its interval, at each place."""
    return [over_seeds(each.tolist()) for each in row.values]


def _mean(row: Row) -> NDArray[np.float64]:
    """The mean over seeds, at each place."""
    return np.asarray(row.values.mean(axis=1))


def _numbers(found: Any) -> NDArray[Any]:
    """All numbers of something; of ratios and intervals their values, 0 where there is none."""
    if isinstance(found, Row):
        return found.values.ravel()
    many = found if isinstance(found, list | np.ndarray) else [found]
    return np.array([(each.value or 0.0) if isinstance(each, Ratio | Interval) else each for each in many])


def _steadily(found: Any, compare: Callable[[float, float], bool]) -> bool:
    return all(compare(one, two) for one, two in pairwise(_numbers(found).tolist()))


def _sure(found: Sequence[Ratio | Interval], bound: float) -> NDArray[np.bool_]:
    """Of each whether its whole interval lies at a bound or above."""
    return np.array([each.low is not None and each.low >= bound for each in found])


def _beyond(one: Interval, other: Interval) -> bool | None:
    """Whether one lies above the other by more than the halves of both; None where chance decides."""
    if one.value is None or other.value is None or one.half is None or other.half is None:
        return None
    gap, doubt = one.value - other.value, one.half + other.half
    return True if gap > doubt else False if gap < -doubt else None


def _pooled(*rows: Row) -> Row:
    """The geometric mean over all places of some rows, seed by seed."""
    return Row((0.0,), np.exp(np.log(np.concatenate([row.values for row in rows])).mean(axis=0, keepdims=True)))


def _total(*rows: Row) -> Row:
    """The sum over all places of some rows, seed by seed."""
    return Row((0.0,), np.concatenate([row.values for row in rows]).sum(axis=0, keepdims=True))


def _greatest(*found: Sequence[Ratio]) -> Ratio:
    """The largest ratio of all, with its interval."""
    return max((each for some in found for each in some), key=lambda each: each.value or 0.0)


def _until(row: Row, bound: float) -> float:
    """The last place up to which means are at most a bound; 0 for none."""
    highest = 0.0
    for place, mean in zip(row.at, _mean(row), strict=True):
        if mean > bound:
            break
        highest = place
    return highest


def _carried(row: Row, bound: float) -> float:
    """The last place up to which means are at most so many times that of the first; 0 for none."""
    return _until(row, bound * float(_mean(row)[0]))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "pooled": _pooled, "total": _total, "greatest": _greatest, "until": _until,
    "lowest": lambda row: row.values.min(axis=1),
    "places": lambda row: np.array(row.at),
    "ratio": _ratio, "over": _over, "mean": _mean, "sure": _sure, "carried": _carried, "numbers": _numbers,
    "max": lambda *found: max(float(_numbers(each).max()) for each in found),
    "min": lambda *found: min(float(_numbers(each).min()) for each in found),
    "least": lambda row: _part(row, slice(at := int(np.argmin(_mean(row))), at + 1)),
    "largest": lambda *found: np.maximum.reduce([_numbers(each) for each in found]),
    "sum": lambda found: float(_numbers(found).sum()),
    "abs": lambda found: abs(_numbers(found)),
    "count": lambda found: int(_numbers(found).sum()),
    "all": lambda found: all(_numbers(found).tolist()),
    "any": lambda found: any(_numbers(found).tolist()),
    "beyond": lambda one, other: [_beyond(*pair) for pair in zip(one, other, strict=True)],
    "rises": lambda found: _steadily(found, operator.lt),
    "never_falls": lambda found: _steadily(found, operator.le),
    "falls": lambda found: _steadily(found, operator.gt),
    "never_rises": lambda found: _steadily(found, operator.ge),
    "inside": lambda found: 0 < int(np.argmax(_numbers(found))) < len(_numbers(found)) - 1,
}  # fmt: skip
"""What a formula may call. ratio, over, mean: over seeds.  rises, falls: strictly, from place to place.

inside: whether the largest is neither the first nor the last.  sure(ratios, bound): which lie at a bound or above.
"""

Found = Value | list[Value] | bool
"""What a formula comes to."""
