"""What the page asks for: a scenario file and a command."""

from __future__ import annotations

import io
from typing import Any, Literal

from msgspec import Struct

from poise.core.errors import UserError

SCENARIO = "scenario.yaml"


class Load(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A generated load. rate: per second.  cv: of the gaps, 1 for Poisson.  groups: shared prefixes, 0 for none."""

    rate: float = 10.0
    requests: int = 3000
    cv: float = 1.0
    prompt_tokens: float = 1000.0
    prompt_cv: float = 1.0
    output_tokens: float = 200.0
    output_cv: float = 1.0
    groups: int = 0
    prefix_tokens: int = 1000
    turns: int = 1


class Form(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of the page. trace: the name of a trace, empty for the generated `load`.

    device, replicas, tensor, routers, loads, find_collapse: of a comparison.
    devices, minimize, attainment, time_limit_s: of a plan.
    """

    what: Literal["compare", "plan"]
    name: str = ""
    trace: str = ""
    columns: dict[str, str] = {}
    skip_bad: bool = False
    load: Load = Load()
    model: str = "llama-3.1-8b"
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    device: str = "H100"
    replicas: int = 8
    tensor: int = 1
    routers: tuple[str, ...] = ()
    loads: tuple[float, ...] = ()
    find_collapse: bool = False
    devices: tuple[str, ...] = ()
    minimize: str = "cost"
    attainment: float = 0.99
    time_limit_s: float | None = None

    @property
    def slo(self) -> dict[str, float]:
        """The limits that are given."""
        limits = {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s, "e2e_s": self.e2e_s}
        return {name: _short(value) for name, value in limits.items() if value is not None}


def check(form: Form) -> None:
    """UserError for a form from which no command can be made; all else the command checks itself."""
    from poise.catalogue import device, model

    model(form.model)
    for name in (form.device,) if form.what == "compare" else form.devices:
        device(name)
    if form.what == "plan" and not form.devices:
        raise UserError("devices: none is picked; pick those that the fleet may have")
    if form.what == "plan" and not form.slo:
        raise UserError("SLO: no limit is given, and a fleet is planned to meet one; give a limit, as TTFT 1 s")
    if form.what == "compare" and not form.routers:
        raise UserError("routers: none is picked; pick two or more")
    if form.minimize not in ("cost", "energy", "gpus"):
        raise UserError(f"minimize {form.minimize}: there is no such aim; give cost, energy or gpus")


def scenario(form: Form) -> dict[str, Any]:
    """The scenario: for a plan only its traffic, for a comparison all."""
    workload = _recorded(form) if form.trace else _generated(form.load)
    if form.what == "plan":
        return {"workload": workload}
    pool: dict[str, Any] = {"device": form.device, "replicas": form.replicas}
    if form.tensor != 1:
        pool["tensor"] = form.tensor
    fields: dict[str, Any] = {
        "model": form.model,
        "cluster": {"pools": [pool]},
        "workload": workload,
        "policies": {"router": list(form.routers)},
    }
    if form.slo:
        fields["slo"] = form.slo
    if form.loads:
        fields["compare"] = {"loads": [_short(each) for each in form.loads]}
    return fields


def yaml(form: Form) -> str:
    """The scenario as YAML."""
    from ruamel.yaml import YAML

    writer, text = YAML(typ="rt", pure=True), io.StringIO()
    writer.width = 120
    writer.default_flow_style = None  # what has no further levels stands on one line
    writer.dump(scenario(form), text)
    return text.getvalue()


def command(form: Form, name: str) -> list[str]:
    """The command, to be given in the folder of the page, that runs the scenario of the run `name`."""
    out = f"runs/{name}"
    if form.what == "compare":
        words = ["poise", "compare", f"{out}/{SCENARIO}", "--out", out]
        return [*words, "--find-collapse"] if form.find_collapse else words
    limits = [f"{limit}={value:g}" for limit, value in {**form.slo, "attainment": form.attainment}.items()]
    words = ["poise", "plan", f"{out}/{SCENARIO}", "--model", form.model, "--devices", ",".join(form.devices)]
    words += ["--slo", ",".join(limits), "--minimize", form.minimize]
    words += [] if form.time_limit_s is None else ["--time-limit", f"{form.time_limit_s:g}"]
    return [*words, "--out", out]


def _recorded(form: Form) -> dict[str, Any]:
    fields: dict[str, Any] = {"trace": f"../../traces/{form.trace}"}
    if form.columns:
        fields["columns"] = dict(form.columns)
    if form.skip_bad:
        fields["skip_bad"] = True
    return fields


def _generated(load: Load) -> dict[str, Any]:
    source: dict[str, Any] = {"rate": _short(load.rate)}
    if load.cv != 1:
        source["cv"] = _short(load.cv)
    source["requests"] = load.requests
    source["prompt_tokens"] = _lengths(load.prompt_tokens, load.prompt_cv)
    source["output_tokens"] = _lengths(load.output_tokens, load.output_cv)
    fields: dict[str, Any] = {"poisson" if load.cv == 1 else "gamma": source}
    if load.groups:
        fields["shared_prefixes"] = {"groups": load.groups, "prefix_tokens": load.prefix_tokens}
    if load.turns != 1:
        fields["sessions"] = {"turns": load.turns}
    return fields


def _lengths(mean: float, cv: float) -> Any:
    return _short(mean) if cv == 0 else {"lognormal": {"mean": _short(mean), "cv": _short(cv)}}


def _short(value: float) -> float | int:
    """A whole number without its point."""
    return int(value) if value == int(value) else value
