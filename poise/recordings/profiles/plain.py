"""The roofline's times of single operators, for comparison: fixed time plus the larger of arithmetic and bytes."""

from __future__ import annotations

import numpy as np

from poise.core.spec import Device
from poise.cost.collective import Line, Link, all_gather, all_reduce, all_to_all, p2p
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import link_of
from poise.cost.operator import OPERATORS
from poise.cost.typical import parts
from poise.recordings.profiles.fitting import Floats, columns


def plain(kind: str, form: str, device: Device, coordinates: Floats) -> Floats:
    """Seconds at each row of coordinates by the roofline's default efficiencies."""
    use, operator, at = Efficiencies(), OPERATORS[kind], columns(coordinates)
    if operator.link:
        return _collectives(kind, device, use, coordinates)
    compute, moved, fixed = parts(kind, form, operator.figures(device, form), at, use)
    return np.asarray(fixed + np.maximum(compute, moved))


def _collectives(kind: str, device: Device, use: Efficiencies, coordinates: Floats) -> Floats:
    found = []
    for size, ranks in coordinates:
        count = int(ranks)
        link = link_of(device, count, use)
        if kind.endswith("all_reduce"):
            found.append(all_reduce(count, float(size), link))
        else:
            found.append(_line(kind, count, link).at(float(size)))
    return np.array(found)


def _line(kind: str, ranks: int, link: Link) -> Line:
    if kind == "send_recv":
        return p2p(link)
    exchanges = kind.endswith("all_to_all") or kind.startswith(("dispatch", "combine"))
    return all_to_all(ranks, link) if exchanges else all_gather(ranks, link)
