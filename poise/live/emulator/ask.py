"""Parsing requests as vLLM does: bodies checked by its rules, prompts tokenized, answers drawn at random.

Unknown fields are accepted and ignored, as vLLM does. Not emulated, and refused: more than one prompt or choice in a
request, and inputs other than text. Accepted without effect: sampling parameters, `stop`, tools (they lengthen the
prompt), response formats and `priority` (which vLLM ignores too under its default scheduling).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from poise.core.chance import Chance
from poise.live.emulator.identity import chain, salted
from poise.live.emulator.refuse import Refused, invalid, missing, number, unfit, whole
from poise.live.emulator.tokens import Tokenizer, complete, converse, encode

LIKELY: Final = 512
"""An answer that may end by itself has 1 to `LIKELY` tokens, each length equally likely, or fewer if the limit is."""
LONGEST_S: Final = 30 * 86_400
"""The longest time for which KV is kept on request."""
_U64: Final = (1 << 64) - 1
_TTL: Final = re.compile(r"(\d{1,6})([smh])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that requests are checked against.

    names: of the model.  context: most tokens of prompt and output.  block: tokens of a KV block.
    adapters: names of LoRA adapters, which share no cache with the model or one another.
    """

    names: tuple[str, ...]
    context: int
    block: int
    caching: bool
    seed: int
    adapters: Collection[str] = ()


@dataclass(slots=True)
class EngineRequest:
    """A parsed request of the emulated engine.

    kind: `chat`, `completion`, `response` or `embedding`.  prompt: its tokens.  speech: the answer's.
    ids: of the whole blocks of prompt and answer; () without prefix caching.
    usage, continuous: of a stream: whether a last chunk has the token counts, and whether each chunk has.
    limit: most tokens of the answer.  temperature, top_p: repeated in responses.
    salt: of the cache, "" for none.  whole: prompt tokens in whole KV blocks, which are cached.
    keep_s: seconds for which its KV stays, 0 for as long as there is room.
    """

    kind: str
    model: str
    prompt: array[int]
    speech: Tokenizer
    ids: tuple[int, ...]
    stream: bool = False
    usage: bool = False
    continuous: bool = False
    priority: int = 0
    echo: str = ""
    limit: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    salt: str = ""
    whole: int = 0
    keep_s: int = 0

    @property
    def finish(self) -> str:
        """The finish reason: `stop` if the answer ends by itself, `length` at the limit."""
        return "stop" if self.speech.stops else "length"


class Reader:
    """Parses request bodies."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._chance = Chance(limits.seed)

    def chat(self, body: Mapping[str, Any], output: int = 0) -> EngineRequest:
        """`/v1/chat/completions`; output: exact number of tokens of the answer, 0: as the request says."""
        model = self._model(body)
        messages = _messages(body)
        _sampling(body)
        prompt = converse(messages, body.get("tools"))
        limit = whole(body, "max_completion_tokens", least=1)
        if limit is None:
            limit = whole(body, "max_tokens", least=1)
        return self._made("chat", model, body, prompt, limit, output)

    def completion(self, body: Mapping[str, Any], output: int = 0) -> EngineRequest:
        """`/v1/completions`; `max_tokens` is 16 where it is not given."""
        model = self._model(body)
        prompt, text = _prompt(body)
        _sampling(body)
        limit = whole(body, "max_tokens", least=1)
        ask = self._made("completion", model, body, prompt, 16 if limit is None else limit, output)
        if body.get("echo"):
            ask.echo = text
        return ask

    def response(self, body: Mapping[str, Any], output: int = 0) -> EngineRequest:
        """`/v1/responses`: input as a text or as messages, instructions before it."""
        model = self._model(body)
        given = body.get("input")
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        if not isinstance(given, list):
            raise (
                missing("input", body)
                if given is None
                else invalid("list_type", ("input",), "Input should be a valid list", given)
            )
        messages = [each for each in given if isinstance(each, Mapping) and "role" in each]
        if body.get("instructions"):
            messages.insert(0, {"role": "system", "content": str(body["instructions"])})
        prompt = converse(_messages({"messages": messages}), body.get("tools"))
        return self._made("response", model, body, prompt, whole(body, "max_output_tokens", least=1), output)

    def embeddings(self, body: Mapping[str, Any]) -> list[EngineRequest]:
        """`/v1/embeddings`: one parsed request for each input."""
        model = self._model(body)
        given = body.get("input")
        if given is None or given == [] or given == "":
            raise missing("input", body)
        many = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
        return [self._made("embedding", model, {}, _prompt({"prompt": each})[0], 1, 1) for each in many]

    def tokens(self, body: Mapping[str, Any]) -> array[int]:
        """`/tokenize`: of a prompt or of messages."""
        if body.get("model") is not None:
            self._model(body)
        if "messages" in body:
            return converse(_messages(body), body.get("tools"))
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise missing("prompt", body)
        return complete(prompt) if body.get("add_special_tokens", True) else encode(prompt)

    def _model(self, body: Mapping[str, Any]) -> str:
        """The model's name in the request; the first served name where none is given."""
        names, model = self.limits.names, body.get("model")
        if model is None or model == "":
            return names[0]
        if model not in names and model not in self.limits.adapters:
            aliases = ", ".join(names)
            raise Refused(
                404, f"The model `{model}` does not exist. Valid aliases: {aliases}.", "NotFoundError", "model"
            )
        return str(model)

    def _made(
        self, kind: str, model: str, body: Mapping[str, Any], prompt: array[int], limit: int | None, output: int
    ) -> EngineRequest:
        context = self.limits.context
        tokens, room = len(prompt), context - len(prompt)
        if room < 0:
            raise unfit(
                f"This model's maximum context length is {context} tokens. However, your prompt contains {tokens} "
                f"input tokens, which exceeds this limit even without any output tokens. Please reduce the length of "
                f"the input prompt.",
                "input_tokens",
                tokens,
            )
        if limit is not None and limit > context:
            raise unfit(
                f"max_tokens={limit} cannot be greater than max_model_len={context}. Please request fewer output "
                f"tokens.",
                "max_tokens",
                limit,
            )
        limit = room if limit is None else min(limit, room)
        if not limit:
            raise unfit("max_tokens must be at least 1, got 0.", "max_tokens", 0)
        speech = self._speech(body, prompt, limit, output)
        options = body.get("stream_options") or {}
        return EngineRequest(
            kind, model, prompt, speech, self._ids(body, model, prompt, speech),
            stream=bool(body.get("stream")),
            usage=bool(options.get("include_usage")),
            continuous=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
            priority=whole(body, "priority") or 0,
            limit=limit,
            temperature=_or_one(number(body, "temperature")),
            top_p=_or_one(number(body, "top_p")),
            salt=str(body.get("cache_salt") or ""),
            whole=tokens - tokens % self.limits.block if self.limits.caching else 0,
            keep_s=_keep_s(body),
        )  # fmt: skip

    def _speech(self, body: Mapping[str, Any], prompt: array[int], limit: int, output: int) -> Tokenizer:
        """The answer: its words and length are drawn from prompt and seed, so equal requests have equal answers."""
        least = whole(body, "min_tokens", least=0) or 0
        if least > limit:
            raise Refused(400, f"min_tokens must be less than or equal to max_tokens={limit}, got {least}.")
        chance = self._chance
        chance.key = chain(prompt, len(prompt), (whole(body, "seed") or 0) & _U64)[0]
        bits = chance.bits("words")
        if output:
            return Tokenizer(bits, min(output, limit), output < limit)
        if body.get("ignore_eos") or least == limit:
            return Tokenizer(bits, limit, False)
        low = max(least, 1)
        high = max(min(limit, LIKELY), low)
        length = low + (chance.bits("length") * (high - low + 1) >> 64)
        return Tokenizer(bits, length, length < limit)

    def _ids(self, body: Mapping[str, Any], model: str, prompt: array[int], speech: Tokenizer) -> tuple[int, ...]:
        """The whole blocks of prompt and answer; the answer's last token is never computed."""
        if not self.limits.caching:
            return ()
        salt = body.get("cache_salt")
        if salt is not None and not (isinstance(salt, str) and salt):
            raise unfit("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
        if model in self.limits.adapters:
            salt = f"{salt or ''}\0{model}"
        return chain(prompt + speech.ids()[:-1], self.limits.block, salted(salt or ""))


def _messages(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages, each with a role and a content that is text."""
    messages = body.get("messages")
    if messages is None:
        raise missing("messages", body)
    if not isinstance(messages, list):
        raise invalid("list_type", ("messages",), "Input should be a valid list", messages)
    if not messages:
        raise Refused(400, "Cannot apply chat template to an empty conversation. Provide at least one message.")
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise invalid("missing", ("messages", place, "role"), "Field required", message)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
                raise Refused(400, "the emulated engine reads text only; send content parts that have a `text`")
        if content is not None and not isinstance(content, str | list):
            raise invalid("string_type", ("messages", place, "content"), "Input should be a valid string", content)
    return messages


def _prompt(body: Mapping[str, Any]) -> tuple[array[int], str]:
    """The tokens of a prompt that is a text or tokens, or a list of just one such; and its text, if it has one."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if prompt is None or prompt in ("", []):
        raise unfit("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(prompt, str):
        return complete(prompt), prompt
    if not isinstance(prompt, list):
        raise _no_prompt(prompt)
    if not all(isinstance(each, int) and 0 <= each < 1 << 64 for each in prompt):
        raise Refused(400, "the emulated engine takes one prompt a request: a text, or token ids from 0 up")
    return array("Q", prompt), ""


def _no_prompt(given: object) -> Refused:
    """The refusal of a prompt of none of the four types: one error for each of them."""
    a_list, a_text = (("list_type", "Input should be a valid list"), ("string_type", "Input should be a valid string"))
    errors = [invalid(kind, ("prompt",), message, given) for kind, message in (a_list, a_list, a_text, a_list)]
    text = "".join(each.message.partition(":")[2] for each in errors)
    return Refused(400, f"{len(errors)} validation errors:{text}", errors[0].kind, errors[0].param)


def _keep_s(body: Mapping[str, Any]) -> int:
    """Seconds of Dynamo's `nvext.cache_control`: a ttl as in `30s`, `5m`, `1h`; 0 for anything else."""
    extension = body.get("nvext")
    control = extension.get("cache_control") if isinstance(extension, Mapping) else None
    if not isinstance(control, Mapping) or control.get("type") != "ephemeral":
        return 0
    found = _TTL.fullmatch(str(control.get("ttl")))
    return min(int(found[1]) * _UNIT_S[found[2]], LONGEST_S) if found else 0


def _or_one(value: float | None) -> float:
    return 1.0 if value is None else value


def _sampling(body: Mapping[str, Any]) -> None:
    """Refuse what vLLM's sampling parameters refuse, for the parameters that requests are likely to have."""
    temperature, top_p = number(body, "temperature"), number(body, "top_p")
    if temperature is not None and temperature < 0:
        raise unfit(f"temperature must be non-negative, got {temperature}.", "temperature", temperature)
    if top_p is not None and not 0 < top_p <= 1:
        raise unfit(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    choices = whole(body, "n")
    if choices is not None and choices < 1:
        raise Refused(400, f"n must be at least 1, got {choices}.")
    if choices is not None and choices > 1:
        raise Refused(400, f"the emulated engine makes one choice a request, not n={choices}", param="n")
    if body.get("stream_options") and not body.get("stream"):
        raise unfit("Stream options can only be defined when `stream=True`.", "stream_options")
