"""Tensors of a file of `torch.save` as nested lists, read without PyTorch and without running what a pickle names."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

TYPES = {
    "FloatStorage": "<f4", "DoubleStorage": "<f8", "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2",
    "CharStorage": "<i1", "ByteStorage": "<u1", "BoolStorage": "?", "HalfStorage": "<f2",
}  # fmt: skip
"""Storages by their names in PyTorch, and their values in numpy."""


def read_torch(path: Path) -> Any:
    """What was saved, each tensor as nested lists; ValueError for any other file, and for other objects in it."""
    try:
        with zipfile.ZipFile(path) as file:
            data = next((name for name in file.namelist() if name.endswith("/data.pkl")), None)
            if data is None:
                raise ValueError("it has no data.pkl, so torch.save did not write it")
            with file.open(data) as pickled:
                return _Reader(pickled, file, data.removesuffix("data.pkl")).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"it is no file of torch.save: {error}") from error


class _Reader(pickle.Unpickler):
    """An unpickler that makes containers, numbers and tensors, and nothing else."""

    def __init__(self, pickled: Any, file: zipfile.ZipFile, folder: str) -> None:
        super().__init__(pickled)
        self._file, self._folder = file, folder

    def find_class(self, module: str, name: str) -> Any:
        """The maker of a tensor or an ordered dictionary, or the name of a storage's type."""
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in TYPES:
            return name
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no number, container or tensor")

    def persistent_load(self, pid: Any) -> Any:
        """A storage's values."""
        import numpy as np

        _, kind, key, *_ = pid
        return np.frombuffer(self._file.read(f"{self._folder}data/{key}"), dtype=TYPES[kind])


def _tensor(values: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Any:
    """Nested lists of a tensor's values."""
    import numpy as np

    step = values.itemsize
    return np.lib.stride_tricks.as_strided(values[offset:], size, [each * step for each in stride]).tolist()
