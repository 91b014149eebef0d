"""ServeGen's clients: a table of arrivals by client and window, and a table of quantiles of lengths."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import TraceError
from poise.workload.clients import MEDIA, Clients
from poise.workload.readers.columns import codes, numbers
from poise.workload.readers.file import load
from poise.workload.readers.ledger import Ledger
from poise.workload.readers.raw import Raw

Floats = NDArray[np.float64]

ARRIVALS = ("client", "window_start_s", "rate_rps", "pattern", "param1")
LENGTHS = ("client", "window_start_s", "field", "q0", "q100")
"""Columns that identify the two tables."""


def read_clients(
    arrivals: str | os.PathLike[str], lengths: str | os.PathLike[str] | None = None, *, skip_bad: bool = False
) -> Clients:
    """Return the clients in `arrivals`, with the quantiles in `lengths`.

    lengths: None takes the file next to `arrivals` with `lengths` for `arrivals` in its name.  skip_bad: pass over bad
    rows. A window takes the table of its client that begins last before it, within one interval of the tables.
    """
    path = Path(arrivals)
    beside = path.with_name(path.name.replace("arrivals", "lengths")) if lengths is None else Path(lengths)
    if lengths is None and beside == path:
        raise TraceError(f"{path}: its name has no `arrivals`, so lengths beside it cannot be found; name that file")
    windows = Ledger(_load(path, ARRIVALS))
    client, begin, rate = (_number(windows, name) for name in ("client", "window_start_s", "rate_rps"))
    shape = _number(windows, "param1", above=True)
    weibull = _patterns(windows)
    kept = windows.settle(skip_bad)
    begin, rate, names = begin[kept], rate[kept], client[kept].astype(np.int64)
    window_s = _interval(path, begin)
    tables = Ledger(_load(beside, LENGTHS))
    keys, fields, levels, sketches = _sketches(tables, skip_bad)
    return Clients(
        path=str(path),
        window_s=window_s,
        client=names,
        begin_s=begin,
        expected=_counts(rate * window_s),
        shape=shape[kept],
        weibull=weibull[kept],
        table=_places(keys, names, begin),
        levels=levels,
        lengths=dict(zip(fields, sketches, strict=True)),
    )


def _load(path: Path, wanted: tuple[str, ...]) -> Raw:
    raw = load(path, None)
    lacking = [name for name in wanted if name not in raw.columns]
    if lacking:
        raise TraceError(f"{path}: lacks the columns {', '.join(lacking)}; name a table of ServeGen's clients")
    return raw


def _number(ledger: Ledger, name: str, *, above: bool = False) -> Floats:
    read = numbers(ledger.raw.columns[name])
    ledger.refuse(~((read > 0 if above else read >= 0) & (read < np.inf)), name, "it must be a number above 0")
    return np.nan_to_num(read)


def _patterns(ledger: Ledger) -> NDArray[np.bool_]:
    """Where gaps are Weibull; an Exponential pattern is a Gamma of shape 1 and so needs no mark of its own."""
    names = [str(each).lower() for each in ledger.raw.columns["pattern"]]
    known = np.array([name in ("gamma", "weibull") for name in names], dtype=bool)
    ledger.refuse(~known, "pattern", "it must be Gamma or Weibull")
    return np.array([name == "weibull" for name in names], dtype=bool)


def _interval(path: Path, begin: Floats) -> float:
    """Seconds between the beginnings of windows."""
    between = np.diff(np.unique(begin))
    if len(between) == 0:
        raise TraceError(f"{path}: has one window of time; two are needed, to say how long each lasts")
    return float(between.min())


def _counts(expected: Floats) -> Floats:
    """Requests of each window: published rates are whole counts that went through 32-bit floats."""
    nearest = np.rint(expected)
    return np.where(np.abs(expected - nearest) < 1e-3 + 1e-6 * expected, nearest, expected)


Sketches = tuple[NDArray[np.float64], list[str], Floats, list[NDArray[np.float32]]]


def _sketches(ledger: Ledger, skip_bad: bool) -> Sketches:
    """Keys (client, begin) of the tables, fields, levels in [0, 1], and for each field quantiles by key and level."""
    raw = ledger.raw
    columns = sorted((float(name[1:]) / 100, name) for name in raw.columns if _is_level(name))
    keys = np.stack([_number(ledger, name) for name in ("client", "window_start_s")], axis=1)
    quantiles = np.stack([numbers(raw.columns[name]) for _, name in columns], axis=1).astype(np.float32)
    field, names = codes(raw.columns["field"])
    wanted = _wanted(raw, names)
    # The place of each row's field among those wanted; rows of other fields are not looked at.
    places = np.array([wanted.index(name) if name in wanted else -1 for name in names])
    slot = np.where(field >= 0, places[field], -1)
    _refuse_sketches(ledger, keys, quantiles, slot, wanted)
    kept = ledger.settle(skip_bad)
    kept = kept[slot[kept] >= 0]
    if len(kept) == 0:
        raise TraceError(f"{raw.path}: no client has all of {', '.join(wanted)}; name a table that has them")
    sound, place = np.unique(keys[kept], axis=0, return_inverse=True)
    filled = np.zeros((len(wanted), len(sound), len(columns)), dtype=np.float32)
    filled[slot[kept], place.ravel()] = quantiles[kept]
    return sound, wanted, np.array([level for level, _ in columns]), list(filled)


def _refuse_sketches(
    ledger: Ledger, keys: Floats, quantiles: NDArray[np.float32], slot: NDArray[np.int64], wanted: list[str]
) -> None:
    """Refuse quantiles that do not ascend, and clients that lack a field at some time or have it twice."""
    used = slot >= 0
    with np.errstate(invalid="ignore"):
        odd = ~((np.diff(quantiles, axis=1) >= 0).all(axis=1) & (quantiles[:, 0] >= 0) & np.isfinite(quantiles[:, -1]))
    ledger.refuse(used & odd, "q0", "its quantiles must be numbers from 0 that ascend with the level")
    every, key = np.unique(keys, axis=0, return_inverse=True)
    key = key.ravel()
    held = np.zeros((len(every), len(wanted)), dtype=np.int64)
    sound = used & ~ledger.bad
    np.add.at(held, (key[sound], slot[sound]), 1)
    rule = f"it must have one row for each of {', '.join(wanted)}"
    ledger.refuse(used & (held != 1).any(axis=1)[key], "client", rule)


def _is_level(name: str) -> bool:
    return name[:1] == "q" and name[1:].replace(".", "", 1).isdecimal()


def _wanted(raw: Raw, names: list[str]) -> list[str]:
    """The fields that make up prompts and outputs, of those that the table has."""
    prompt = next((each for each in ("input_tokens", "text_tokens") if each in names), None)
    if prompt is None or "output_tokens" not in names:
        raise TraceError(
            f"{raw.path}: found the fields {', '.join(names)}, and needs output_tokens beside input_tokens or "
            "text_tokens; name a table that has them"
        )
    media = [f"{kind}_{what}" for kind in MEDIA for what in ("count", "tokens")] if prompt == "text_tokens" else []
    return [prompt, "output_tokens", *(each for each in media if each in names)]


def _places(keys: Floats, client: NDArray[np.int64], begin: Floats) -> NDArray[np.int64]:
    """The table of each window: its client's that begins last before it; -1 where that was an interval ago."""
    between = np.diff(np.unique(keys[:, 1]))
    interval = float(between.min()) if len(between) else np.inf
    # Keys ascend by client and time, so one number keeps their order and a search finds the last one before.
    span = max(float(keys[:, 1].max()), float(begin.max())) + 1
    place = np.searchsorted(keys[:, 0] * span + keys[:, 1], client * span + begin, side="right") - 1
    near = np.maximum(place, 0)
    fits = (place >= 0) & (keys[near, 0] == client) & (begin - keys[near, 1] < interval)
    return np.where(fits, near, -1)
