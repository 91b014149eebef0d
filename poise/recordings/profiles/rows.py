"""One form for all operator profiles: rows of a kind with its shape, its coordinates and microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from poise.cost.operator import OPERATORS, TILE

C = pl.col

ABOUT = ("source", "device", "framework", "kernel", "format")
"""The columns of every row besides its shape; all text."""

_PLAIN = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_BY_BYTES = (*_PLAIN, "send_recv", *(f"pcie_{kind}" for kind in _PLAIN), "staged_all_reduce")
_BY_TOKENS = ("dispatch", "combine", "dispatch_normal", "combine_normal")

SHAPES: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "prefill": ("batch", "new", "past", "heads", "kv_heads", "width", "window"),
    "decode": ("batch", "context", "heads", "kv_heads", "width", "window"),
    "mla_prefill": ("batch", "new", "past", "heads"),
    "mla_decode": ("batch", "context", "heads"),
    "moe": ("tokens", "hidden", "inter", "matrices", "topk", "experts", "tp", "ep", "skew"),
    "moe_ep": ("tokens", "hidden", "inter", "matrices", "topk", "experts", "slots", "ep", "skew"),
    "mla_prefill_module": ("batch", "new", "heads"),
    "mla_decode_module": ("batch", "context", "heads"),
    "mixed": ("new", "past", "batch", "context", "heads", "kv_heads", "width"),
    "light": ("bytes",),
    **dict.fromkeys(_BY_BYTES, ("bytes", "ranks", "nodes")),
    **dict.fromkeys(_BY_TOKENS, ("tokens", "hidden", "topk", "experts", "ranks", "nodes")),
}
"""The columns that state a shape, whole numbers. `skew` is 0 for balanced loads, else 100 × the power law's exponent;
`heads` are those of one device; `window` 0 attends to everything; `slots` count experts with their copies."""

GROUPS: dict[str, tuple[str, ...]] = {
    "gemm": ("n", "k"),
    "prefill": ("heads", "kv_heads", "width", "window"),
    "decode": ("heads", "kv_heads", "width", "window"),
    "mla_prefill": ("heads",),
    "mla_decode": ("heads",),
    "moe": ("hidden", "inter", "topk", "experts", "tp", "ep"),
    "moe_ep": ("hidden", "inter", "experts", "slots", "ep"),
    "mla_prefill_module": ("heads",),
    "mla_decode_module": ("heads",),
    "mixed": ("heads", "kv_heads", "width"),
    "light": ("bytes",),
    **dict.fromkeys(_BY_BYTES, ("bytes",)),
    **dict.fromkeys(_BY_TOKENS, ("hidden", "topk", "experts")),
}
"""The columns that make a family of shapes: cross-validation leaves whole families out."""

CONTRADICTORY = 0.1
"""Repeats of one row that differ by more than this share of the least contradict one another."""


def _long(pairs: pl.Expr) -> pl.Expr:
    """The length of a prompt without past whose queries meet `pairs` keys."""
    return ((1 + 8 * pairs).sqrt() - 1) / 2


def _pairs() -> pl.Expr:
    """Query-key pairs of a sequence, Σ min(past + i, window) over i = 1 … new."""
    new, past, window = C("new").cast(pl.Float64), C("past").cast(pl.Float64), C("window").cast(pl.Float64)
    whole = (window - past).clip(0, new)
    windowed = whole * past + whole * (whole + 1) / 2 + (new - whole) * window
    return pl.when(window > 0).then(windowed).otherwise(new * past + new * (new + 1) / 2)


def _seen() -> pl.Expr:
    """Tokens that a decoding query attends to."""
    return pl.when(C("window") > 0).then(pl.min_horizontal("context", "window")).otherwise(C("context"))


def _reached() -> pl.Expr:
    """Mean number of ranks that hold any of a token's experts: each gets the token once."""
    others = 1 - 1 / C("ranks")
    return C("ranks") * (1 - others ** C("topk"))


_AXES: dict[str, dict[str, pl.Expr]] = {
    "gemm": {},
    "prefill": {
        "span": (_pairs() / C("new")).clip(TILE),
        "queries": C("batch") * C("heads") * C("new").clip(TILE),
        "group": C("heads") / C("kv_heads"),
    },
    "decode": {
        "context": _seen(),
        "kv_heads": C("batch") * C("kv_heads"),
        "group": C("heads") / C("kv_heads"),
    },
    "mla_prefill": {
        "new": _long(C("new").cast(pl.Float64) * C("past") + C("new").cast(pl.Float64) * (C("new") + 1) / 2),
        "heads": C("batch") * C("heads"),
    },
    "mla_decode": {},
    "moe": {
        "load": C("tokens") * C("topk") / C("experts"),
        "expert": C("matrices") * C("hidden") * C("inter") / C("tp"),
        "experts": C("experts") / C("ep"),
        "ranks": C("ep"),
        "skew": pl.when(C("skew") == 0).then(1).when(C("skew") < 110).then(2).otherwise(4),
    },
    "moe_ep": {
        "load": C("tokens") * C("topk") / C("slots"),
        "expert": C("matrices") * C("hidden") * C("inter"),
        "experts": C("slots") / C("ep"),
        "skew": pl.when(C("skew") < 110).then(2.0 ** (C("skew") / 100)).otherwise(4.0),
    },
    "dispatch": {"bytes": 2.0 * C("tokens") * C("hidden") * C("topk")},
    "combine": {"bytes": 2.0 * C("tokens") * C("hidden") * C("topk")},
    "dispatch_normal": {"bytes": 2.0 * C("tokens") * C("hidden") * _reached()},
    "combine_normal": {"bytes": 2.0 * C("tokens") * C("hidden") * _reached()},
}
"""Coordinates of `Operator.axes` that are not columns of the shape themselves."""


def coordinates(kind: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The coordinates of all rows, one column for each axis of the kind, as floats."""
    own = _AXES.get(kind, {})
    axes = OPERATORS[kind].axes
    return rows.select(own.get(axis, C(axis)).cast(pl.Float64).alias(axis) for axis in axes)


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of rows read, and of those left out: no number, not above 0, repeated exactly or nearly, contradictory.

    other: rows of operators that have no kind here, by name.
    """

    read: int = 0
    missing: int = 0
    repeated: int = 0
    contradictory: int = 0
    other: dict[str, int] = field(default_factory=dict)

    def __add__(self, more: Counts) -> Counts:
        other = {name: self.other.get(name, 0) + more.other.get(name, 0) for name in {**self.other, **more.other}}
        return Counts(
            self.read + more.read,
            self.missing + more.missing,
            self.repeated + more.repeated,
            self.contradictory + more.contradictory,
            other,
        )


def clean(kind: str, rows: pl.DataFrame) -> tuple[pl.DataFrame, Counts]:
    """Rows that state one finite time for their shape.

    Of repeats within `CONTRADICTORY` the first in order of time stays; where they differ by more, none does, because
    it is unknown which of them is right.
    """
    shape = SHAPES[kind]
    good = rows.filter(
        C("us").is_not_null(), C("us").is_finite(), C("us") > 0, *(C(name).is_not_null() for name in shape)
    )
    keys = [*ABOUT, *shape]
    ordered = good.sort([*keys, "us"])
    spread = ordered.group_by(keys, maintain_order=True).agg(
        C("us").first(), ((C("us").max() / C("us").min()) > 1 + CONTRADICTORY).alias("_apart"), pl.len().alias("_rows")
    )
    kept = spread.filter(~C("_apart"))
    apart = int(spread.filter(C("_apart"))["_rows"].sum())
    counts = Counts(rows.height, rows.height - good.height, good.height - kept.height - apart, apart)
    return kept.select([*keys, "us"]), counts
