"""Chat templates as Hugging Face renders them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.live.requests.chat_template import ChatTemplate

HELLO = [{"role": "user", "content": "hello"}]


def _render(source: str, special: dict[str, str] | None = None, **body: Any) -> str | None:
    return ChatTemplate({"default": source}, special or {}).render({"messages": HELLO, **body})


@pytest.mark.parametrize(
    ("source", "body", "expected"),
    [
        ("{{ messages[0].content }}", {}, "hello"),
        ("  {% if 1 %}\n  x\n  {% endif %}\n", {}, "  x\n"),  # blocks are trimmed
        ("{{ bos_token }}{{ eos_token is defined }}", {}, "<s>False"),
        ("{% if add_generation_prompt %}A{% endif %}", {}, "A"),
        ("{% if add_generation_prompt %}A{% endif %}", {"add_generation_prompt": False}, ""),
        ("{{ tools | tojson }}", {"tools": [{"a": "<é>"}]}, '[{"a": "<é>"}]'),
        ("{{ tools | tojson(indent=1) }}", {"tools": [1]}, "[\n 1\n]"),
        ("{{ tools is none }}", {}, "True"),
        ("{{ thinking }}", {"chat_template_kwargs": {"thinking": True}}, "True"),
        ("{% generation %}x{% endgeneration %}y", {}, "xy"),
        ("{% for m in messages %}{% break %}{% endfor %}z", {}, "z"),
        ("{{ strftime_now('%Y') | length }}", {}, "4"),
        ("{{ raise_exception('no') }}", {}, None),
        ("{{ messages.append(1) }}", {}, None),  # nothing may be changed
        ("{{ ''.__class__.__mro__ }}", {}, None),  # nor reached
        ("{{ 1 / 0 }}", {}, None),
    ],
)
def test_rendering(source: str, body: dict[str, Any], expected: str | None) -> None:
    assert _render(source, {"bos_token": "<s>"}, **body) == expected


def test_parts_become_text_where_the_template_wants_text() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    listing = "{% for m in messages %}{% if m.content is string %}[{{ m.content }}]{% else %}" + (
        "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}"
    )
    assert _render(plain, messages=parts) == "[a\nb]"
    assert _render(listing, messages=parts) == "(a)(b)"
    assert _render(listing) == "[hello]"
    assert _render(listing, messages=[{"role": "user", "content": [{"type": "input_audio"}]}]) is None


def test_arguments_of_calls_are_objects() -> None:
    source = "{{ messages[0].tool_calls[0].function.arguments.x }}"

    def rendered(arguments: str) -> str | None:
        calls = [{"type": "function", "function": {"name": "f", "arguments": arguments}}]
        return _render(source, messages=[{"role": "assistant", "content": None, "tool_calls": calls}])

    assert rendered('{"x": 3}') == "3" and rendered("") == "" and rendered("no json") == ""


def test_a_named_template_for_tools() -> None:
    template = ChatTemplate({"default": "plain", "tool_use": "tools"}, {})
    assert template.render({"messages": HELLO}) == "plain"
    assert template.render({"messages": HELLO, "tools": [{}]}) == "tools"


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    assert ChatTemplate.of(tmp_path) is None
    config = tmp_path / "tokenizer_config.json"
    named = [{"name": "default", "template": "D{{ eos_token }}"}, {"name": "tool_use", "template": "T"}]
    config.write_text(json.dumps({"chat_template": named, "eos_token": {"content": "</s>"}, "bos_token": None}))
    found = ChatTemplate.of(tmp_path)
    assert found is not None and found.render({"messages": HELLO}) == "D</s>"
    (tmp_path / "chat_template.jinja").write_text("alone")
    found = ChatTemplate.of(tmp_path)
    assert found is not None and found.render({"messages": HELLO}) == "alone"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be read"), ("[]", "is not a JSON object"), ('{"chat_template": "{% if"}', "is broken")],
)
def test_files_that_will_not_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(UserError, match=message):
        ChatTemplate.of(tmp_path)
