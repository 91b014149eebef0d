"""Libraries that only some results need: pandas frames and matplotlib figures."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from poise.core.errors import UserError
from poise.core.extras import install

if TYPE_CHECKING:
    import pandas
    from polars import DataFrame


def needed(module: str, extra: str, what: str) -> Any:
    """A module of an extra; UserError with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise UserError(f"{what} needs {module}, the extra {extra!r}; {install(extra)}") from None


def to_pandas(frame: DataFrame) -> pandas.DataFrame:
    """A polars frame as one of pandas (extra `pandas`), column by column."""
    found: pandas.DataFrame = needed("pandas", "pandas", "to_pandas").DataFrame(frame.to_dict(as_series=False))
    return found
