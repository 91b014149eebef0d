"""What a request says of its answer's form: JSON of a schema, or the call of a tool.

`tool_choice: auto` (the default with tools) is as with vLLM's `--enable-auto-tool-choice --tool-call-parser hermes`:
half of the answers call a tool, all tools equally often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from poise.core.chance import Chance
from poise.live.emulator.json_text import ANY, Text, json_text
from poise.live.emulator.refuse import Refused, invalid, unfit
from poise.live.emulator.tokens import Tokenizer
from poise.live.emulator.written import Called, Written, called, filled, tokens_of

FORMATS: Final = ("text", "json_object", "json_schema")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that may be called: its name, and arguments that its schema allows."""

    name: str
    arguments: Text


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: `text`, or a call of one of `tools`; named: the request says which.

    maybe: half of the answers are words after all.
    """

    text: Text | None = None
    tools: Sequence[Tool] = ()
    named: bool = False
    maybe: bool = False

    def answer(
        self, drawn: Tokenizer, limit: int, exact: bool, chance: Chance
    ) -> tuple[Tokenizer | Written, Called | None]:
        """The answer in place of the words that were drawn, of as many tokens if it can be, and the call in it.

        exact: the number of tokens is dictated. What is cut by the limit is not complete.
        """
        bits = chance.bits("tool")
        if self.maybe and bits & 1:
            return (drawn, None) if self.text is None else (_written(self.text, drawn, limit, exact), None)
        if not self.tools:
            assert self.text is not None
            return _written(self.text, drawn, limit, exact), None
        tool = self.tools[(bits >> 1) % len(self.tools)]
        around, call = called(tool.arguments, tool.name, f"chatcmpl-tool-{chance.bits('call'):016x}", self.named)
        whole = filled(around, drawn.tokens, drawn.word, exact)
        return _cut(whole, drawn, limit, exact), call(whole)


def _written(text: Text, drawn: Tokenizer, limit: int, exact: bool) -> Written:
    return _cut(filled(text, drawn.tokens, drawn.word, exact), drawn, limit, exact)


def _cut(whole: str, drawn: Tokenizer, limit: int, exact: bool) -> Written:
    """The answer as far as its tokens reach."""
    needed, most = tokens_of(whole), drawn.tokens if exact else limit
    return Written(whole, min(needed, most), drawn.bits, needed <= most)


def form_of(body: Mapping[str, Any]) -> Form | None:
    """The form that a body asks for; None for words."""
    text = _format(body.get("response_format"))
    choice, given = body.get("tool_choice"), body.get("tools")
    if not given:
        if choice is not None and choice != "none":
            raise unfit("When using `tool_choice`, `tools` must be set.", "tool_choice")
        return None if text is None else Form(text)
    if not isinstance(given, list):
        raise invalid("list_type", ("tools",), "Input should be a valid list", given)
    if choice == "none":
        return None if text is None else Form(text)
    tools = [_tool(place, tool) for place, tool in enumerate(given)]
    if choice in (None, "auto"):
        return Form(text, tools, maybe=True)
    if choice == "required":
        return Form(text, tools)
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = [tool for tool in tools if tool.name == name]
    if not named:
        raise unfit("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice")
    return Form(text, named[:1], named=True)


def _tool(place: int, tool: Any) -> Tool:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise invalid("missing", ("tools", place, "function", "name"), "Field required", tool)
    return Tool(function["name"], _text(function.get("parameters") or {"type": "object"}))


def _format(given: Any) -> Text | None:
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind not in FORMATS:
        text = "Input should be 'text', 'json_object' or 'json_schema'"
        raise invalid("literal_error", ("response_format", "type"), text, kind)
    if kind == "text":
        return None
    if kind == "json_object":
        return _text(ANY)
    stated = given.get("json_schema")
    if not isinstance(stated, Mapping):
        text = "When response_format type is 'json_schema', the 'json_schema' field must be provided."
        raise unfit(text, "response_format")
    return _text(stated.get("schema") or {})


def _text(schema: Any) -> Text:
    try:
        return json_text(schema)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise Refused(400, f"the schema cannot be followed: {error}", param="response_format") from None
