"""Coefficients fitted to measured operators, as they ship: found by kind, device, format and engine.

`operators.json` holds them with source, licence and date; `poise calibrate --profiles` writes such files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import expm1, log, sqrt
from pathlib import Path
from typing import Any

from poise.core.errors import ScenarioError
from poise.core.spec import Device
from poise.cost.formats import WEIGHT_ONLY
from poise.cost.grid import Axis
from poise.cost.operator import Shape
from poise.cost.origin import Error
from poise.cost.saved import load_saved
from poise.cost.tables.blend import Blend
from poise.cost.tables.curve import Answer, Curve, Slice, Table, grid_of
from poise.cost.tables.lending import ROOFLINE, Loan, Part, chosen, expected, read_loans

__all__ = (
    "FIGURES", "KIND", "PROFILERS", "SCHEMA", "SHIPPED", "SLOW", "Answer", "Curve", "Slice", "Table", "Tables",
    "distance", "grid_of", "lacking", "load_tables",
)  # fmt: skip

KIND = "operator tables"
SCHEMA = 1
SHIPPED = Path(__file__).with_name("operators.json")
LINKS = Path(__file__).with_name("links.json")
"""Tables of collectives that ship next to `SHIPPED`: of PCIe, of newer devices, and of exchanges between experts."""

SLOW = 1.2
"""How many times as long as another engine's kernel an engine's own may take; slower, it is taken to run the other."""
PROFILERS = ("vidur", "llmservingsim")
"""Frameworks of profiles that are no engines to serve by."""

NARROW = 4_000
"""Rows below which a table is lent only where no broad one of a device as near is at hand."""

FIGURES = ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops", "memory_bw", "scaleup_bw", "host_bw")
"""The figures of a device that a file keeps, so that others can be compared with it."""


@dataclass(frozen=True)
class Tables:
    """All tables of a file, the devices that they were measured on, and where they come from.

    loans: how well devices answered for one another.
    """

    tables: tuple[Table, ...]
    devices: Mapping[str, Device]
    about: Mapping[str, Any] = field(default_factory=dict)
    loans: tuple[Loan, ...] = ()

    def without(self, device: str) -> Tables:
        """The same as if a device had not been measured."""
        loans = (loan for loan in self.loans if device not in (loan.lender, loan.borrower))
        return replace(self, tables=tuple(t for t in self.tables if t.device != device), loans=tuple(loans))

    def curve(self, kind: str, device: Device, form: str, framework: str = "", kernel: str = "") -> Curve | None:
        """The table that serves best, at the figures of `device`; None where no table has the kind.

        In this order: the requested format; the same device, else its lenders; the engine and requested kernel; the
        most rows.
        """
        best = self._best(kind, device, form, framework, kernel)
        if best is None:
            return None
        found: dict[str, Curve] = {}
        parts = self.lenders(best, device)
        for lender in (each.lender for each in parts):
            one = self._best(kind, device, form, framework, kernel, lender) if lender != ROOFLINE else None
            if one and (not kernel or (one.framework, one.kernel) == (best.framework, best.kernel)):
                found[lender] = self._curve(one, device, form)
        return _lent(parts, found, self._curve(best, device, form))

    def _best(
        self, kind: str, device: Device, form: str, framework: str, kernel: str = "", of: str = ""
    ) -> Table | None:
        """The table of `curve`, as it was measured; of one device alone, where it is named."""
        found = (table for table in self.tables if table.kind == kind and of in ("", table.device))
        return min(found, key=lambda table: self._rank(table, device, form, framework, kernel), default=None)

    def usual(self, kind: str, device: Device, form: str, framework: str, probe: tuple[float, ...]) -> Curve | None:
        """The table that a tuned engine runs by: its own, unless another on the same device is `SLOW` times faster.

        Some kernels are measured that no deployment would choose, and some with the host's time to launch them, which
        CUDA graphs hide. They are compared at the coordinates `probe`, and only where they were measured there: a
        kernel for heads of an unusual width says nothing about others.
        """
        return next(iter(self.tried(kind, device, form, framework, (probe,))), None)

    def tried(
        self,
        kind: str,
        device: Device,
        form: str,
        framework: str,
        probes: Sequence[tuple[float, ...]],
        kernels: str = "",
    ) -> tuple[Curve, ...]:
        """`usual` at each of several coordinates; where nothing was measured, the choice at the nearest before.

        kernels: the format of the tables, where it is not `form`.  Empty where no table has the kind.
        """
        best = self._best(kind, device, kernels or form, framework)
        if best is None:
            return ()
        parts = self.lenders(best, device)
        names = [each.lender for each in parts if each.lender != ROOFLINE] or [best.device]
        found = {name: self._tried_of(name, best, device, form, framework, probes) for name in names}
        made: dict[tuple[Curve, ...], Curve] = {}
        tried: list[Curve] = []
        for at in range(len(probes)):
            curve = _lent(parts, {name: curves[at] for name, curves in found.items()}, found[names[0]][at])
            tried.append(made.setdefault(curve.lent_by, curve))
        for curve in made.values():
            own = [probe for probe, each in zip(probes, tried, strict=True) if each is curve]
            curve.probed = own[len(own) // 2]
        return tuple(tried)

    def _tried_of(
        self, lender: str, best: Table, device: Device, form: str, framework: str, probes: Sequence[tuple[float, ...]]
    ) -> list[Curve]:
        """`tried` by the tables of one device in the format of `best`."""
        found = self._best(best.kind, device, best.format, framework, of=lender)
        assert found is not None
        here = [t for t in self.tables if (t.kind, t.device, t.format) == (best.kind, lender, found.format)]
        rivals = [t for t in here if t.framework not in PROFILERS and _runs(framework, t, found)]
        curves = [self._curve(t, device, form) for t in rivals]
        tried = [_by_trial([c for c in curves if c.covers(*probe)], found.framework, probe) for probe in probes]
        last = next(filter(None, tried), self._curve(found, device, form))
        return [last := curve or last for curve in tried]

    def lenders(self, best: Table, device: Device) -> list[Part]:
        """Who lends to a device in the kind and format of `best`, the largest part first, `ROOFLINE` among them.

        Empty where the device was measured itself, and where the file has no loans of the kind.
        """
        kind = best.kind
        loans = [loan for loan in self.loans if loan.kind == kind]
        if best.device == device.name or not loans:
            return []
        to = {name: distance(device, other) for name, other in self.devices.items()}
        errors = expected(loans, to, lambda one, other: distance(self.devices[one], self.devices[other]))
        able = {t.device for t in self.tables if (t.kind, t.format) == (kind, best.format)} | {ROOFLINE}
        return chosen({lender: error for lender, error in errors.items() if lender in able})

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
            return self.curve(kind, device, form, framework, kernel)
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


def _lent(parts: Sequence[Part], curves: Mapping[str, Curve], alone: Curve) -> Curve:
    """What lenders with these parts answer together, by their curves; `alone` where none has a part.

    alone: also the table by whose name and coordinates the roofline answers where it has the only part.
    """
    able = [each for each in parts if each.lender == ROOFLINE or each.lender in curves]
    whole = sum(each.part for each in able)
    if not whole:
        return alone
    lent = [(curves[each.lender], each.part / whole) for each in able if each.lender != ROOFLINE]
    plain = sum(each.part for each in able if each.lender == ROOFLINE) / whole
    found = lent[0][0] if len(able) == 1 and lent else Blend(lent or [(alone, 0.0)], plain, alone.figures)
    median, p90 = (expm1(sum(each.part * each.error[at] for each in able) / whole) for at in (0, 1))
    found.expected = Error(median, p90)
    return found


def _runs(framework: str, table: Table, own: Table) -> bool:
    """Whether an engine may run a kernel by trial: any, but of narrow weights in wide products only its own.

    own: what was measured of the engine. Such weights are packed for one kernel when they are loaded (Marlin,
    FlashInfer's, a plugin), and another engine's kernel cannot read them.
    """
    packed = table.format in WEIGHT_ONLY and own.framework == framework
    return not packed or table.framework == framework


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


def lacking(kind: str) -> ScenarioError:
    """The error of tables that have nothing of a kind."""
    return ScenarioError(f"cost.tables: no table of {kind}; fit one to profiles that have it, or take the roofline")


def load_tables(path: str | Path = SHIPPED, *, links: bool = True) -> Tables:
    """The tables of a file; ScenarioError for one that has none.  links: `SHIPPED` comes with those of `LINKS`."""
    path = Path(path).absolute()
    return _shipped() if links and path == SHIPPED.absolute() else _load(str(path))


@lru_cache(maxsize=1)
def _shipped() -> Tables:
    one, links = _load(str(SHIPPED)), _load(str(LINKS))
    about = {**one.about, "sources": [*one.about["sources"], *links.about["sources"]]}
    return Tables((*one.tables, *links.tables), {**links.devices, **one.devices}, about, one.loans)


@lru_cache(maxsize=8)
def _load(path: str) -> Tables:
    cure = "give a file that `poise calibrate --profiles` wrote"
    saved = load_saved(path, KIND, SCHEMA, "holds no operator tables", cure)
    try:
        devices = {row["name"]: Device(memory_bytes=0, **row) for row in saved.pop("devices")}
        loans = read_loans(saved.pop("loans", ()))
        return Tables(tuple(map(_table, saved.pop("tables"))), devices, saved, loans)
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
