"""What all sections of a scenario file have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def whole(value: Any) -> Any:
    """A float without fraction (`1e5`) as an int; everything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]


class Section(BaseModel):
    """A mapping of the file: strict kinds, no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
