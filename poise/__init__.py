"""Poise simulates where the work of large models goes. `import poise as ps`; names load when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poise import cost, policies, workload
    from poise.core.control.control import Control
    from poise.core.records.trace import Trace
    from poise.core.spec import Belief, Engine, Fault, Lane, Pool, Slo, Startup
    from poise.policies import Policies
    from poise.scenario.compare.python import compare
    from poise.scenario.python import Cluster, Result, devices, models, simulate

    __version__: str

_HOMES = {
    "Belief": "core.spec",
    "Cluster": "scenario.python",
    "Control": "core.control.control",
    "Engine": "core.spec",
    "Fault": "core.spec",
    "Lane": "core.spec",
    "Policies": "policies",
    "Pool": "core.spec",
    "Result": "scenario.python",
    "Slo": "core.spec",
    "Startup": "core.spec",
    "Trace": "core.records.trace",
    "compare": "scenario.compare.python",
    "devices": "scenario.python",
    "models": "scenario.python",
    "simulate": "scenario.python",
}
"""Where each name of the face is defined."""

_ROOMS = ("cost", "policies", "workload")
"""Packages that are names of the face themselves."""

__all__ = [
    "Belief",
    "Cluster",
    "Control",
    "Engine",
    "Fault",
    "Lane",
    "Policies",
    "Pool",
    "Result",
    "Slo",
    "Startup",
    "Trace",
    "__version__",
    "compare",
    "cost",
    "devices",
    "models",
    "policies",
    "simulate",
    "workload",
]


def __getattr__(name: str) -> Any:
    """Import what `name` needs when it is first asked for."""
    from importlib import import_module

    if name == "__version__":
        from poise.core.version import version

        found: Any = version()
    elif name in _ROOMS:
        found = import_module(f"poise.{name}")
    elif name in _HOMES:
        found = getattr(import_module(f"poise.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'poise' has no attribute {name!r}; it has {', '.join(__all__)}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The names of the face."""
    return list(__all__)
