"""Coefficients fitted to measured operators, as they ship: found by kind, device, format and engine.

`operators.json` holds them with source, licence and date; `poise calibrate --profiles` writes such files.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import exp, log, prod, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.spec import Device
from poise.cost.grid import Axis, Grid, rising, unpack
from poise.cost.operator import OPERATORS, Figures, Operator, Shape, octaves
from poise.cost.origin import Error, How, Origin
from poise.cost.saved import load_saved

BEFORE = 3.0
"""Octaves below a grid to its first node, where one is needed."""

KIND = "operator tables"
SCHEMA = 1
SHIPPED = Path(__file__).with_name("operators.json")
LINKS = Path(__file__).with_name("links.json")
"""Tables of collectives that ship next to `SHIPPED`: of PCIe, of newer devices, and of exchanges between experts."""

BEYOND = 8.0
"""Octaves above a grid to its last node, which the form alone decides."""

SLOW = 1.2
"""How many times as long as another engine's kernel an engine's own may take; slower, it is taken to run the other."""
PROFILERS = ("vidur", "llmservingsim")
"""Frameworks of profiles that are no engines to serve by."""

PACKING = ("", "vllm_flash_attn", "flash_attention", "FLASH_ATTENTION")
"""Kernels of attention tables that are FlashAttention 2; vLLM's layer profiles name none."""

ROWS = 64
"""Queries of a tile of FlashAttention 2 over paged KV (`run_mha_fwd_splitkv_dispatch`: kBlockM)."""

NARROW = 4_000
"""Rows below which a table is lent only where no broad one of a device as near is at hand."""

FIGURES = ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops", "memory_bw", "scaleup_bw", "host_bw")
"""The figures of a device that a file keeps, so that others can be compared with it."""


class Answer(NamedTuple):
    """One operator's time with its standing.

    how: a word of `poise.cost.origin.How`. error: by cross-validation of such answers.
    """

    seconds: float
    how: str
    error: Error
    table: str


@dataclass(frozen=True, slots=True)
class Table:
    """One operator on one device in one format by one kernel.

    values, seen: the packed grid and which of its nodes had rows. error: of shapes held out. lent: of other devices.
    """

    kind: str
    device: str
    framework: str
    format: str
    kernel: str
    rows: int
    shape: Shape
    axes: tuple[Axis, ...]
    values: str
    seen: str
    error: Error
    lent: Error

    @property
    def operator(self) -> Operator:
        """What kind of operator it is."""
        return OPERATORS[self.kind]

    @property
    def tile(self) -> int:
        """Queries that each head of a decode counts as in one kernel with a prompt's chunk; 0: it takes as alone.

        FlashAttention 2 packs the queries of a group into one tile where all are decodes; with a chunk each head has
        a tile of its own, which is computed whole. Other kernels pack always, or run apart.
        """
        return ROWS if self.kernel in PACKING else 0

    @property
    def label(self) -> str:
        """The table in one line."""
        return " ".join(filter(None, (self.kind, self.device, self.format, self.framework, self.kernel)))


class Curve:
    """A table at a device's figures: seconds of any shape, rising along all axes and never under the datasheet's."""

    __slots__ = ("_seen", "asked", "borrowed", "figures", "grid", "table")

    def __init__(self, table: Table, figures: Figures, borrowed: bool) -> None:
        """asked: the coordinates at which it was chosen, none where it was not chosen among several."""
        self.table, self.figures, self.borrowed = table, figures, borrowed
        self.asked: tuple[float, ...] = ()
        self.grid, self._seen = grid_of(table, figures)

    def slice(self, first: int, *rest: float) -> Slice:
        """The curve over its first `first` coordinates alone, the others fixed at `rest`."""
        axes = self.grid.axes
        fixed = list(Grid(axes[first:], ()).corners([octaves(each) for each in rest]))
        size = prod(len(axis.nodes) for axis in axes[first:])
        count = prod(len(axis.nodes) for axis in axes[:first])
        values = self.grid.values
        mixed = [sum(weight * values[node * size + index] for index, weight in fixed) for node in range(count)]
        return Slice(self, Grid(axes[:first], mixed), rest)

    def seconds(self, *at: float) -> float:
        """Seconds at coordinates in the order of `Operator.axes`."""
        table = self.table
        found = exp(self.grid.at([octaves(each) for each in at]))
        compute, moved = table.operator.least(at, table.format, self.figures)
        return max(found, float(compute), float(moved))

    def covers(self, *at: float) -> bool:
        """Whether coordinates lie between shapes that were measured."""
        return self._inside(at) >= 0.5

    def _inside(self, at: Sequence[float]) -> float:
        """The weight of measured nodes around coordinates; 0 outside the grid."""
        where = [octaves(each) for each in at]
        if any(not axis.low - 0.5 <= x <= axis.high + 0.5 for axis, x in zip(self._seen.axes, where, strict=True)):
            return 0.0
        return sum(weight for index, weight in self._seen.corners(where) if self._seen.values[index])

    def answer(self, *at: float) -> Answer:
        """Seconds, and the evidence behind them."""
        origin = self.origin(*at)
        return Answer(self.seconds(*at), origin.how.value, origin.error, origin.table)

    def origin(self, *at: float) -> Origin:
        """The evidence at coordinates; without any, at those at which the table was chosen."""
        table, at = self.table, at or self.asked
        how = self._how(at)
        error = table.error if how in (How.MEASURED, How.INTERPOLATED) else table.lent
        return Origin(table.kind, table.format, how, table.device, table.label, error)

    def _how(self, at: Sequence[float]) -> How:
        if self.borrowed:
            return How.BORROWED
        inside = self._inside(at) if at else 1.0
        if inside < 0.5:
            return How.EXTRAPOLATED
        return How.MEASURED if inside > 1 - 1e-9 else How.INTERPOLATED


class Slice:
    """A curve over some of its coordinates, fewer look-ups each."""

    __slots__ = ("_figures", "_format", "_least", "_rest", "grid")

    def __init__(self, curve: Curve, grid: Grid, rest: tuple[float, ...]) -> None:
        self.grid, self._rest = grid, rest
        self._least, self._format, self._figures = curve.table.operator.least, curve.table.format, curve.figures

    def seconds(self, *at: float) -> float:
        """Seconds at the coordinates that are left."""
        compute, moved = self._least((*at, *self._rest), self._format, self._figures)
        found = exp(self.grid.at([octaves(each) for each in at]))
        return max(found, float(compute), float(moved))


@lru_cache(maxsize=256)
def grid_of(table: Table, figures: Figures) -> tuple[Grid, Grid]:
    """The log seconds of a table at a device's figures, with nodes beyond; and which of its own nodes had rows."""
    kind = table.operator
    missed = unpack(table.values, table.axes)
    axes = tuple(
        Axis(axis.low, axis.step, axis.count, BEYOND, _before(table, at)) for at, axis in enumerate(table.axes)
    )
    values = []
    for node, at in zip(Grid(axes, ()).nodes(), _edges(axes), strict=True):
        form = kind.seconds(tuple(2.0**each for each in node), table.format, figures, table.shape)
        values.append(log(form) + missed[at])
    bits = b64decode(table.seen)
    seen = [bool(bits[at // 8] >> at % 8 & 1) for at in range(len(missed))]
    return rising(Grid(axes, values), kind.rising), Grid(table.axes, seen)


def _before(table: Table, at: int) -> float:
    """Octaves down to a node below a grid that begins later than its axis might."""
    starts = table.operator.starts
    return BEFORE if starts and table.axes[at].low > starts[at] + 1 else 0.0


def _edges(axes: tuple[Axis, ...]) -> list[int]:
    """For each node of axes with some beyond and before, the nearest node without."""
    found = [0]
    for axis in axes:
        steps = [0] * (axis.before > 0) + [*range(axis.count), axis.count - 1]
        found = [index * axis.count + step for index in found for step in steps]
    return found


@dataclass(frozen=True)
class Tables:
    """All tables of a file, the devices that they were measured on, and where they come from."""

    tables: tuple[Table, ...]
    devices: Mapping[str, Device]
    about: Mapping[str, Any] = field(default_factory=dict)

    def curve(self, kind: str, device: Device, form: str, framework: str = "", kernel: str = "") -> Curve | None:
        """The table that serves best, at the figures of `device`; None where no table has the kind.

        In this order: the requested format; the same device, else the nearest relative by its datasheet; the engine
        and requested kernel; the most rows.
        """
        best = self._best(kind, device, form, framework, kernel)
        return None if best is None else self._curve(best, device, form)

    def _best(self, kind: str, device: Device, form: str, framework: str, kernel: str = "") -> Table | None:
        """The table of `curve`, as it was measured."""
        found = (table for table in self.tables if table.kind == kind)
        return min(found, key=lambda table: self._rank(table, device, form, framework, kernel), default=None)

    def usual(self, kind: str, device: Device, form: str, framework: str, probe: tuple[float, ...]) -> Curve | None:
        """The table that a tuned engine runs by: its own, unless another on the same device is `SLOW` times faster.

        Some kernels are measured that no deployment would choose, and some with the host's time to launch them, which
        CUDA graphs hide. They are compared at the coordinates `probe`, and only where they were measured there: a
        kernel for heads of an unusual width says nothing about others.
        """
        return next(iter(self.tried(kind, device, form, framework, (probe,))), None)

    def tried(
        self, kind: str, device: Device, form: str, framework: str, probes: Sequence[tuple[float, ...]]
    ) -> tuple[Curve, ...]:
        """`usual` at each of several coordinates; where nothing was measured, the choice at the nearest before.

        Empty where no table has the kind.
        """
        found = self._best(kind, device, form, framework)
        if found is None:
            return ()
        here = [t for t in self.tables if (t.kind, t.device, t.format) == (kind, found.device, found.format)]
        curves = [self._curve(t, device, form) for t in here if t.framework not in PROFILERS]
        chosen = [_by_trial([c for c in curves if c.covers(*probe)], found.framework, probe) for probe in probes]
        last = next(filter(None, chosen), self._curve(found, device, form))
        tried = tuple(last := curve or last for curve in chosen)
        for curve in set(tried):
            own = [probe for probe, each in zip(probes, tried, strict=True) if each is curve]
            curve.asked = own[len(own) // 2]
        return tried

    def named(
        self, kind: str, device: Device, form: str, framework: str, kernel: str, probe: tuple[float, ...]
    ) -> Curve | None:
        """The table of a kernel by its name; where the device was not measured and no relative has that kernel, the one
        that an engine would run by there (`usual`): a new device brings kernels of its own, and they were not made to
        be slower."""
        best = self._best(kind, device, form, framework, kernel)
        if best is None:
            return None
        alike = best.operator.link or best.operator.cached  # no kernels to choose among
        if best.device == device.name or best.kernel == kernel or alike:
            return self._curve(best, device, form)
        return self.usual(kind, device, form, framework, probe)

    def _curve(self, table: Table, device: Device, form: str) -> Curve:
        """The table at the figures of `device`; a relative's narrow widths go with what the device can do at once.

        A peak or a bandwidth twice as high is reached by twice as many tiles or loads in flight (Little's law), which
        come from both dimensions that may be narrow, so each width scales with the square root.
        """
        operator, lender = table.operator, self.devices[table.device]
        figures, shape = operator.figures(device, form), table.shape
        if device.name != lender.name and not operator.link:
            known = operator.figures(lender, form)
            more, wider = sqrt(figures.flops / known.flops), sqrt(figures.bandwidth / known.bandwidth)
            shape = shape._replace(
                math_a=more * shape.math_a,
                math_b=more * shape.math_b,
                memory_a=wider * shape.memory_a,
                memory_b=wider * shape.memory_b,
            )
        borrowed = device.name != lender.name or table.format != form
        return Curve(replace(table, format=form, shape=shape), figures, borrowed)

    def _rank(self, table: Table, device: Device, form: str, framework: str, kernel: str) -> tuple[float, ...]:
        lender, operator = self.devices[table.device], table.operator
        near = distance(device, lender, link=operator.carried if operator.link else None)
        near += 2.0 * (near > 0 and table.rows < NARROW)  # a few shapes do not carry far
        return (
            _apart(form, table.format),
            # light kernels are operations of their own, and so is each path over PCIe
            (operator.cached or operator.wire != "scaleup") and table.kernel != kernel,
            near,
            table.framework != framework,
            kernel != "" and table.kernel != kernel,
            -table.rows,
            -("graph" in table.kernel),
        )


def _timed(probe: tuple[float, ...]) -> Callable[[Curve], float]:
    """What sorts curves by their seconds at a shape."""
    return lambda curve: curve.seconds(*probe)


def _by_trial(rivals: Sequence[Curve], framework: str, probe: tuple[float, ...]) -> Curve | None:
    """The fastest of `framework` at a shape, or the fastest of all where that is `SLOW` times faster; None of none."""
    own = min((c for c in rivals if c.table.framework == framework), key=_timed(probe), default=None)
    best = min(rivals, key=_timed(probe), default=None)
    if own is None or best is None:
        return best
    return own if own.seconds(*probe) <= SLOW * best.seconds(*probe) else best


def _apart(wanted: str, given: str) -> float:
    """How far two formats are apart: the same, the same peak and width, else by their order of width."""
    if wanted == given:
        return 0
    order = ("bf16", "bf16_kv8", "int8_wo", "int4_wo", "mxfp4_wo", "int8", "fp8", "fp8_block", "mxfp4_fp8", "nvfp4")
    return 1 + abs(order.index(wanted) - order.index(given))


def distance(one: Device, other: Device, *, link: Callable[[Device], float] | None = None) -> float:
    """0 for the same device; else the log ratios of peak and bandwidth (of a `link`: its own), and 1 for each native
    format that only one has, 2 for another maker: relatives are of one maker and generation."""
    if one.name == other.name:
        return 0.0
    strange = 2.0 * (one.vendor != other.vendor)
    strange += ((one.fp8_flops > 0) != (other.fp8_flops > 0)) + ((one.fp4_flops > 0) != (other.fp4_flops > 0))
    if link is not None:
        return 0.01 + strange + abs(log(link(one) / link(other)))
    peaks = abs(log(one.bf16_flops / other.bf16_flops))
    return 0.01 + strange + peaks + abs(log(one.memory_bw / other.memory_bw))


def load_tables(path: str | Path = SHIPPED, *, links: bool = True) -> Tables:
    """The tables of a file; ScenarioError for one that has none.  links: `SHIPPED` comes with those of `LINKS`."""
    path = Path(path).absolute()
    return _shipped() if links and path == SHIPPED.absolute() else _load(str(path))


@lru_cache(maxsize=1)
def _shipped() -> Tables:
    one, links = _load(str(SHIPPED)), _load(str(LINKS))
    about = {**one.about, "sources": [*one.about["sources"], *links.about["sources"]]}
    return Tables((*one.tables, *links.tables), {**links.devices, **one.devices}, about)


@lru_cache(maxsize=8)
def _load(path: str) -> Tables:
    cure = "give a file that `poise calibrate --profiles` wrote"
    saved = load_saved(path, KIND, SCHEMA, "holds no operator tables", cure)
    try:
        devices = {row["name"]: Device(memory_bytes=0, **row) for row in saved.pop("devices")}
        return Tables(tuple(map(_table, saved.pop("tables"))), devices, saved)
    except (KeyError, TypeError, ValueError) as error:
        raise ScenarioError(f"{path}: a table is broken ({error}); {cure}") from None


def _table(row: dict[str, Any]) -> Table:
    axes = tuple(Axis(*axis) for axis in row.pop("axes"))
    table = Table(
        shape=Shape(*row.pop("shape")), axes=axes, error=Error(*row.pop("error")), lent=Error(*row.pop("lent")), **row
    )
    if len(axes) != len(table.operator.axes):
        raise ValueError(f"{table.label} has {len(axes)} axes")
    return table
