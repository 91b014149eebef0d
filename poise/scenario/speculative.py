"""Speculative decoding by the names of vLLM's `--speculative-config` and of SGLang's `--speculative-…` flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from poise.catalogue.drafts import Method
from poise.core.errors import UserError

if TYPE_CHECKING:
    from poise.scenario.engine_cost import Speculative

_KEYS: Final = {
    "algorithm": "method", "num_steps": "num_speculative_tokens", "draft_model_path": "model",
    "num_draft_tokens": "verified_tokens",
}  # fmt: skip
"""SGLang's flags without `speculative_`, and what they mean here."""

_METHODS: Final = {"nextn": "mtp", "standalone": "draft_model", "draft": "draft_model"}
"""SGLang's algorithms and vLLM's short forms by the names here; `…_mtp` of vLLM is `mtp`."""

_UNUSED: Final = ("eagle_topk", "draft_tensor_parallel_size", "prompt_lookup_max", "prompt_lookup_min")
"""Settings of both engines that the cost does not depend on, or only through the tokens that are verified."""


def flags(given: Any) -> Any:
    """The mapping `given` by vLLM's names, whichever of the two spellings it has; other values unchanged."""
    if not isinstance(given, dict):
        return given
    found: dict[Any, Any] = {}
    for name, value in given.items():
        plain = str(name).replace("-", "_").removeprefix("speculative_")
        if plain not in _UNUSED:
            found[_KEYS.get(plain, plain)] = value
    method = found.get("method")
    if isinstance(method, str):
        found["method"] = _method(method.lower(), "model" in found)
    if found.get("verified_tokens") == found.get("num_speculative_tokens", -2) + 1:
        del found["verified_tokens"]
    return found


def _method(word: str, with_model: bool) -> str:
    """A method by its name here. SGLang calls a model's own head EAGLE too, where no draft is named."""
    if word.endswith("_mtp") or (word == "eagle" and not with_model):
        return "mtp"
    return _METHODS.get(word, word)


def read_speculative(text: str) -> Speculative:
    """`METHOD:DRAFTS`, or with the name of what drafts `METHOD:DRAFTS:NAME`; UserError for anything else."""
    from poise.catalogue import model
    from poise.scenario.engine_cost import Speculative

    method, _, rest = text.partition(":")
    count, _, name = rest.partition(":")
    word = _method(method.lower(), bool(name))
    if word not in get_args(Method):
        raise UserError(
            f"--speculative {text}: {method} is not a method; give {', '.join(get_args(Method))}, as in mtp:3"
        )
    if not count.isdecimal() or not 1 <= int(count) <= 32:
        raise UserError(f"--speculative {text}: the drafts of a pass are 1 to 32; give them, as in {word}:3")
    if word == "draft_model" and not name:
        raise UserError(f"--speculative {text}: which model drafts is not named; give it, as in {text}:llama-3.2-1b")
    draft = model(name) if word == "draft_model" else None
    return Speculative(int(count), word, draft=draft, name=name)  # type: ignore[arg-type]
