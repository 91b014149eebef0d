"""Costs saved as JSON: one envelope for what each kind of recipe keeps in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.core.errors import ScenarioError


def load_saved(path: str | Path, kind: str, schema: int, other: str, cure: str) -> dict[str, Any]:
    """What a file of this kind holds, without its envelope (`kind`, `schema`).

    other: the message for a file of another kind.  cure: what to give instead. ScenarioError for any other file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); {cure}") from None
    except ValueError:
        raise ScenarioError(f"{path}: is no JSON; {cure}") from None
    if not isinstance(content, dict) or content.pop("kind", None) != kind:
        raise ScenarioError(f"{path}: {other}; {cure}")
    if content.pop("schema", None) != schema:
        raise ScenarioError(f"{path}: its schema is not {schema}; read it with the version of Poise that wrote it")
    return content
