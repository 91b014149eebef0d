"""Empty modules in the place of what SGLang's scheduler imports and, on a CPU with no model, never uses."""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

HOLLOW: Final = ("IPython", "torchvision", "gguf")


class _Name(type):
    """A class for whatever name is imported; its attributes are such classes too, and it has no items."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Name(name, (), {})
        setattr(cls, name, made)
        return made

    def __iter__(cls) -> Any:
        return iter(())


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Name(name, (), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        absent = fullname.split(".")[0] in HOLLOW
        return ModuleSpec(fullname, self, is_package=True) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def install() -> None:
    """Answer imports that nothing else answers, from now on."""
    # transformers looks once for torchvision; it must not find the empty one.
    import transformers.image_utils
    import transformers.modeling_utils  # noqa: F401

    sys.meta_path.append(_Finder())
