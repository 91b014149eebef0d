"""Formats pydantic's errors for users: the value, the rule, the cure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_origin

from poise.core.errors import ScenarioError
from poise.scenario.magnitude import check_magnitude
from poise.scenario.place import Path, Places
from poise.scenario.schema import Scenario
from poise.scenario.section import Section

FOREIGN = {
    "max_num_batched_tokens": "token_budget",
    "max_num_seqs": "max_sequences",
    "block_size": "block_tokens",
    "enable_prefix_caching": "prefix_caching",
    "gpu_memory_utilization": "memory_fraction",
    "num_gpu_blocks": "kv_blocks",
    "swap_space": "host_kv_gb",
    "tensor_parallel_size": "tensor",
    "tp": "tensor",
    "pipeline_parallel_size": "pipeline",
    "pp": "pipeline",
    "expert_parallel_size": "expert",
    "ep": "expert",
    "data_parallel_size": "data",
    "dp": "data",
    "kv_cache_dtype": "kv",
    "dtype": "weights",
    "quantization": "weights",
    "price_per_hour": "price",
    "gpu": "device",
    "gpus": "device",
    "count": "replicas",
    "link_bw": "link_gb_s",
    "qps": "rate",
    "num_requests": "requests",
    "input_tokens": "prompt_tokens",
    "seed": "seeds",
    "warmup": "warmup_s",
    "until": "until_s",
    "duration": "duration_s",
    "scheduler": "batcher",
    "routers": "router",
}
"""Names that engines and other simulators use for the same thing."""

_KINDS = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "finite_number": "must be a finite number",
}
_BOUNDS = {
    "greater_than_equal": ("must be at least", "ge"),
    "greater_than": ("must be above", "gt"),
    "less_than_equal": ("must be at most", "le"),
    "less_than": ("must be below", "lt"),
}


Root = TypeVar("Root", bound=Section)


def checked(root: type[Root], data: dict[str, Any], places: Places) -> Root:
    """Plain data as a file of `root`; ScenarioError for the first mistake."""
    from pydantic import ValidationError

    try:
        file = root.model_validate(data)
    except ValidationError as error:
        raise first_mistake(error.errors(include_url=False), places, root) from None
    check_magnitude(data, places)
    return file


def first_mistake(findings: list[Any], places: Places, root: type[Section] = Scenario) -> ScenarioError:
    """The error for the first finding in a file of `root`; it counts those that follow."""
    found = [(_path(each["loc"]), each) for each in findings]
    unknown_keys = [path for path, each in found if each["type"] == "extra_forbidden"]

    def order(pair: tuple[Path, Any]) -> tuple[int, bool]:
        """By line; a missing key comes after unknown ones in the same section, which may be its misspelling."""
        path, each = pair
        beside = [places.line(other) for other in unknown_keys if other[:-1] == path[:-1]]
        missing = each["type"] == "missing"
        return max([places.line(path), *(beside if missing else ())]), missing

    found.sort(key=order)
    path, finding = found[0]
    error = places.error(path, sentence(path, finding, root))
    if len(found) > 1:
        return ScenarioError(f"{error} ({len(found) - 1} more after this one)")
    return error


def sentence(path: Path, finding: Mapping[str, Any], root: type[Section] = Scenario) -> str:
    """The error in the value at `path`, and the cure."""
    kind, value, limits = finding["type"], finding["input"], finding.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown(str(path[-1]), list(section_at(path[:-1], root).model_fields))
    if kind == "missing":
        return f"is missing; give {_cure(path, root)}"
    if kind == "value_error":
        text = str(limits["error"])
        return text if "; " in text else f"{text}; give {_cure(path, root)}"
    if kind in _BOUNDS:
        rule, name = _BOUNDS[kind]
        return f"{short(value)} {rule} {limits[name]:g}; give {_cure(path, root)}"
    if kind == "literal_error":
        return f"{short(value)} must be {_expected(value, limits['expected'])}; give {_cure(path, root)}"
    if kind == "too_short":
        return f"the list is empty; give {_cure(path, root)}"
    if isinstance(value, str) and kind in ("int_type", "float_type") and _is_number(value):
        return f"{value!r} is a text; {_KINDS[kind]}; write it without quotes"
    if isinstance(value, str) and kind == "bool_type" and value.lower() in ("yes", "no", "on", "off"):
        meant = "true" if value.lower() in ("yes", "on") else "false"
        return f"{value!r} is a text in YAML 1.2; must be true or false; write {meant}"
    return f"{short(value)} {_KINDS.get(kind, 'is not valid: ' + finding['msg'])}; give {_cure(path, root)}"


def unknown(key: str, known: list[str]) -> str:
    """An unknown key, with the nearest known one."""
    near = FOREIGN.get(key)
    if near not in known:
        begun = [name for name in known if len(key) > 2 and name.startswith(key)]
        near = next(iter([*begun, *get_close_matches(key, known, 1, 0.6)]), None)
    listed = ", ".join(known)
    return f"unknown key; did you mean {near}? known are {listed}" if near else f"unknown key; known are {listed}"


def short(value: Any) -> str:
    """A value as the user would write it, cut to fit one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def section_at(path: Path, root: type[Section] = Scenario) -> type[Section]:
    """The section that holds the fields at `path`; `root` itself for an empty path."""
    section = root
    for key in path:
        if isinstance(key, str) and key in section.model_fields:
            section = next(_sections(section.model_fields[key].annotation), section)
    return section


def _sections(annotation: Any) -> Iterator[type[Section]]:
    """The section classes within a type."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        if issubclass(annotation, Section):
            yield annotation
        return
    for part in get_args(annotation):
        yield from _sections(part)


def _path(loc: tuple[Any, ...]) -> Path:
    """Pydantic's location without the tags of unions."""
    return tuple(part for part in loc if not (isinstance(part, str) and part.startswith("[")))


def _cure(path: Path, root: type[Section]) -> str:
    """The field's description."""
    named = [key for key in path if isinstance(key, str)]
    if not named:
        return "the sections cluster and workload"
    section = section_at(path[: path.index(named[-1])], root)
    field = section.model_fields.get(named[-1])
    described = field.description if field else None
    if described is None and len(named) > 1:
        return _cure(path[: path.index(named[-1])], root)
    return described or "another value"


def _expected(value: Any, expected: str) -> str:
    near = get_close_matches(str(value).lower(), expected.replace("'", "").replace(" or ", ", ").split(", "), 1, 0.6)
    return expected.replace("'", "") + (f" (did you mean {near[0]}?)" if near else "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
