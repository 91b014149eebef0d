"""Power caps of devices that a plan may use: those that are given, or a ladder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from poise.catalogue import device as find_device
from poise.core.errors import UserError
from poise.core.power import POWER
from poise.core.spec import Device

LADDER = (0.8, 0.65, 0.5)
"""Caps to try, as parts of the TDP. At the lowest, decodes run at the lowest clock that was measured (`core.power`)."""

UNSTATED = (0.0,)
"""The caps tried for a device without stated ones."""

Caps = Mapping[str, tuple[float, ...]]
"""Watts to try, by the device's name. The TDP is a cap that slows nothing, and lets power be compared by phases."""


def ladder(devices: Iterable[Device]) -> Caps:
    """The TDP and the rungs of `LADDER` in whole watts, for every device of which the TDP is known."""
    return {
        each.name: (each.tdp_w, *(float(round(each.tdp_w * rung)) for rung in LADDER)) for each in devices if each.tdp_w
    }


def read_caps(text: str | None, devices: tuple[Device, ...], *, wanted: bool) -> Caps:
    """Parse `--cap-w`: `none`, `ladder`, or watts as in `H100=500,L40S=250`; a device may be given twice.

    wanted: whether a ladder is used where the option is not given. UserError for an unknown device, and for watts that
    it can be.
    """
    if text is None:
        return ladder(devices) if wanted else {}
    if text.strip() in ("none", "ladder"):
        return ladder(devices) if text.strip() == "ladder" else {}
    given: dict[str, list[float]] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = part.partition("=")
        if not value:
            raise UserError(f"--cap-w {part}: says no watts; give none, ladder, or watts by device, as in H100=500")
        found = find_device(name.strip())
        if found.name not in {each.name for each in devices}:
            raise UserError(f"--cap-w {part}: {found.name} is not among --devices; give one of them")
        given.setdefault(found.name, []).append(_watts(part, value, found))
    if not given:
        raise UserError("--cap-w says nothing; give none, ladder, or watts by device, as in H100=500")
    full = {each.name: [each.tdp_w] for each in devices}
    return {name: tuple(dict.fromkeys(watts)) for name, watts in {**full, **given}.items()}


def _watts(part: str, value: str, device: Device) -> float:
    """The watts of a cap: more than the device draws idle, and at most its TDP."""
    least, most = POWER.idle * device.tdp_w, device.tdp_w
    try:
        watts = float(value)
    except ValueError:
        raise UserError(f"--cap-w {part}: {value!r} is not a number; give watts, as in H100=500") from None
    if not least < watts <= most:
        text = f"above {least:g} W, which it draws idle, and at most {most:g} W, its TDP" if most else "known a TDP of"
        raise UserError(f"--cap-w {part}: a cap of {device.name} must be {text}; give such watts, or none")
    return watts
