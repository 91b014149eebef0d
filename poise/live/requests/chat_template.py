"""A model's chat template, as Hugging Face renders it: from the messages of a request to the text that is tokenised.

A template is a program by whoever made the model: it runs in Jinja's sandbox. Sources: transformers,
utils/chat_template_utils.py (environment and filters); vLLM, entrypoints/chat_utils.py (shapes of content, arguments of
tool calls as objects).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from poise.core.errors import UserError

SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Special tokens in tokenizer_config.json that templates use."""


class _Generation(Extension):
    """`{% generation %}` marks the model's own output, for training; here its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja declares it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)  # Jinja's own escapes HTML


def _refuse(message: str) -> None:
    raise TemplateError(message)


class ChatTemplate:
    """The template of a tokenizer folder; `render` returns the text, or why there is none."""

    __slots__ = ("_by_name", "_special", "_takes_parts")

    def __init__(self, sources: Mapping[str, str], special: Mapping[str, str]) -> None:
        environment = _environment()
        self._by_name = {name: environment.from_string(source) for name, source in sources.items()}
        self._special = dict(special)
        self._takes_parts = {name: self._loops(template) for name, template in self._by_name.items()}

    @classmethod
    def of(cls, folder: Path) -> ChatTemplate | None:
        """The template of `folder`, None where it has none; UserError where a file is broken."""
        config = _config(folder / "tokenizer_config.json")
        sources = _sources(config.get("chat_template"))
        alone = folder / "chat_template.jinja"
        if alone.is_file():
            sources["default"] = alone.read_text(encoding="utf-8")
        special = {name: _content(config[name]) for name in SPECIAL if config.get(name) is not None}
        try:
            return cls(sources, special) if sources else None
        except TemplateError as error:
            raise UserError(f"{folder}: the chat template is broken ({error}); take the file of the model") from None

    def render(self, body: Mapping[str, Any]) -> str | None:
        """The text of a chat request; None where the template refuses it or it holds more than text."""
        name = "tool_use" if body.get("tools") and "tool_use" in self._by_name else "default"
        template = self._by_name.get(name) or next(iter(self._by_name.values()))
        messages = _messages(body["messages"], self._takes_parts.get(name, False))
        if messages is None:
            return None
        options = body.get("chat_template_kwargs") or {}
        try:
            return template.render(
                **{
                    **self._special,
                    "messages": messages,
                    "tools": body.get("tools"),
                    "documents": body.get("documents"),
                    "add_generation_prompt": body.get("add_generation_prompt", True),
                    **options,
                }
            )
        except Exception:  # a template is a foreign program, and may fail in any way on what a client sent
            return None

    def _loops(self, template: Template) -> bool:
        """Whether the template takes content as a list of parts, found by trying."""
        parts = [{"type": "text", "text": "PROBE"}]
        try:
            rendered = template.render(**self._special, messages=[{"role": "user", "content": parts}])
        except Exception:
            return False
        return "PROBE" in rendered and "'text'" not in rendered and '"text"' not in rendered


def _config(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}); take the file of the model") from None
    if not isinstance(found, dict):
        raise UserError(f"{file}: is not a JSON object; take the file of the model")
    return found


def _sources(templates: Any) -> dict[str, str]:
    """One template, or a list of named ones."""
    if isinstance(templates, str):
        return {"default": templates}
    if isinstance(templates, list):
        return {each["name"]: each["template"] for each in templates}
    return {}


def _content(token: Any) -> str:
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _messages(messages: Sequence[Mapping[str, Any]], parts: bool) -> list[dict[str, Any]] | None:
    """The messages in the form that templates use; None where a part is not text."""
    shaped = []
    for message in messages:
        each = dict(message)
        if isinstance(each.get("content"), list):
            texts = [part.get("text") if isinstance(part, dict) else None for part in each["content"]]
            if not all(isinstance(text, str) for text in texts):
                return None
            each["content"] = (
                [{"type": "text", "text": text} for text in texts] if parts else "\n".join(map(str, texts))
            )
        if each.get("tool_calls"):
            each["tool_calls"] = [_call(call) for call in each["tool_calls"]]
        shaped.append(each)
    return shaped


def _call(call: Any) -> Any:
    """A tool call with its arguments as an object, which clients send as JSON text."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}
