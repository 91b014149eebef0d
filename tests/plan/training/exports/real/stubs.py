"""Stands in for what trainers import and their settings do not need: kernels, data sets, loggers."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
import typing
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import torch
import torch._inductor.codecache  # before the stub of Triton, which it would take for the real one

HOPPER = (9, 0)


class Stub(ModuleType):
    """A module that has everything."""

    __path__: Sequence[str] = ()
    __version__ = "3.4.0"

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        takes_all = {"__init__": lambda *_, **__: None}
        return type(name, (), takes_all) if name[:1].isupper() else MagicMock()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stubs of some packages and of all within them."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """A stub for a module of the packages."""
        known = name.split(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The stub."""
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: a stub has no code."""


def stub(*packages: str) -> None:
    """Stand in for packages, for a Hopper device and for compilation."""
    sys.meta_path.insert(0, Finder(packages))
    vars(typing).setdefault("override", lambda method: method)  # Python 3.11
    torch.compile = lambda function=None, **_: function or (lambda given: given)  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda *_: HOPPER  # type: ignore[assignment]
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(major=9, minor=0)  # type: ignore[assignment, return-value]


def found(answer: object) -> None:
    """Print an answer below all that the trainer prints."""
    print(f"\nFOUND {json.dumps(answer)}")
