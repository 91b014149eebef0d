"""Parsing requests as vLLM does: bodies checked by its rules, prompts tokenized, answers drawn at random.

Unknown fields are accepted and ignored, as vLLM does. Not emulated, and refused: more than one prompt in a request for
text, and inputs other than text. Accepted without effect: sampling parameters, `stop` and `priority` (which vLLM
ignores too under its default scheduling).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from poise.core.chance import Chance
from poise.live.emulator.checks import keep_s, messages_of, or_one, prompt_of, sampling
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.identity import chain, salted
from poise.live.emulator.refuse import Refused, invalid, missing, number, unfit, whole
from poise.live.emulator.structured import Form, form_of
from poise.live.emulator.tokens import Tokenizer, complete, converse, encode
from poise.live.requests.messages_chat import chat_of

LIKELY: Final = 512
"""An answer that may end by itself has 1 to `LIKELY` tokens, each length equally likely, or fewer if the limit is."""
_U64: Final = (1 << 64) - 1


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


class Reader:
    """Parses request bodies. What generates becomes one parsed request for each choice.

    output: exact number of tokens of the answer, 0: as the request says.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._chance = Chance(limits.seed)

    def chat(self, body: Mapping[str, Any], output: int = 0) -> list[EngineRequest]:
        """`/v1/chat/completions`."""
        model = self._model(body)
        messages = messages_of(body)
        sampling(body)
        form = form_of(body)
        prompt = converse(messages, body.get("tools"))
        limit = whole(body, "max_completion_tokens", least=1)
        if limit is None:
            limit = whole(body, "max_tokens", least=1)
        return self._choices("chat", model, body, prompt, limit, output, form)

    def completion(self, body: Mapping[str, Any], output: int = 0) -> list[EngineRequest]:
        """`/v1/completions`; `max_tokens` is 16 where it is not given."""
        model = self._model(body)
        prompt, text = prompt_of(body)
        sampling(body)
        limit = whole(body, "max_tokens", least=1)
        form = form_of({"response_format": body.get("response_format")})
        choices = self._choices("completion", model, body, prompt, 16 if limit is None else limit, output, form)
        if body.get("echo"):
            for ask in choices:
                ask.echo = text
        return choices

    def response(self, body: Mapping[str, Any], output: int = 0) -> list[EngineRequest]:
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
        prompt = converse(messages_of({"messages": messages}), body.get("tools"))
        limit = whole(body, "max_output_tokens", least=1)
        return self._choices("response", model, {**body, "n": 1}, prompt, limit, output, None)

    def message(self, body: Mapping[str, Any], output: int = 0) -> list[EngineRequest]:
        """`/v1/messages`: computed as the chat that vLLM makes of it."""
        limit, chat = self._limit(body), self._chat(body)
        sampling(chat)
        form, prompt = form_of(chat), converse(messages_of(chat), chat.get("tools"))
        return self._choices("message", str(chat["model"]), chat, prompt, limit, output, form, "max_completion_tokens")

    def count(self, body: Mapping[str, Any]) -> int:
        """`/v1/messages/count_tokens`: how many tokens the prompt has."""
        chat = self._chat(body)
        return len(converse(messages_of(chat), chat.get("tools")))

    def pooling(self, body: Mapping[str, Any], prompts: list[array[int]]) -> list[EngineRequest]:
        """Whatever computes prompts and generates nothing: one parsed request for each prompt."""
        model = self._model(body)
        return [self._made("pooling", model, {}, prompt, 1, 1) for prompt in prompts]

    def plain(self, kind: str, body: Mapping[str, Any], prompt: array[int], output: int = 0) -> EngineRequest:
        """A request whose answer is one text, or sound."""
        stream = {name: body[name] for name in ("stream", "seed") if name in body}
        return self._made(kind, self._model(body), stream, prompt, None, output)

    def tokens(self, body: Mapping[str, Any]) -> array[int]:
        """`/tokenize`: of a prompt or of messages."""
        if body.get("model") is not None:
            self._model(body)
        if "messages" in body:
            return converse(messages_of(body), body.get("tools"))
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise missing("prompt", body)
        return complete(prompt) if body.get("add_special_tokens", True) else encode(prompt)

    def _chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The chat in a body of /v1/messages, which must name its model."""
        for name in ("model", "messages"):
            if body.get(name) is None:
                raise missing(name, body)
        self._model(body)
        try:
            return chat_of(body)
        except (TypeError, LookupError, AttributeError) as error:
            raise Refused(400, f"the messages are not as the API has them: {type(error).__name__}: {error}") from None

    def _limit(self, body: Mapping[str, Any]) -> int:
        if body.get("max_tokens") is None:
            raise missing("max_tokens", body)
        limit = whole(body, "max_tokens") or 0
        if limit <= 0:
            why = ValueError("max_tokens must be positive")
            raise invalid("value_error", ("max_tokens",), f"Value error, {why}", limit, ctx={"error": why})
        return limit

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

    def _choices(
        self,
        kind: str,
        model: str,
        body: Mapping[str, Any],
        prompt: array[int],
        limit: int | None,
        output: int,
        form: Form | None,
        field: str = "max_tokens",
    ) -> list[EngineRequest]:
        """One request for each choice, as vLLM makes them: equal prompts, answers of their own."""
        count = whole(body, "n") or 1
        return [self._made(kind, model, body, prompt, limit, output, form, field, index) for index in range(count)]

    def _made(
        self,
        kind: str,
        model: str,
        body: Mapping[str, Any],
        prompt: array[int],
        limit: int | None,
        output: int,
        form: Form | None = None,
        field: str = "max_tokens",
        index: int = 0,
    ) -> EngineRequest:
        limit = self._room(prompt, limit, field)
        drawn, exact = self._drawn(body, prompt, limit, output, index)
        speech, call = (drawn, None) if form is None else form.answer(drawn, limit, exact, self._chance)
        options = body.get("stream_options") or {}
        return EngineRequest(
            kind, model, prompt, speech, self._ids(body, model, prompt + speech.ids()[:-1]),
            stream=bool(body.get("stream")),
            usage=bool(options.get("include_usage")),
            continuous=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
            priority=whole(body, "priority") or 0,
            limit=limit,
            temperature=or_one(number(body, "temperature")),
            top_p=or_one(number(body, "top_p")),
            salt=str(body.get("cache_salt") or ""),
            whole=len(prompt) - len(prompt) % self.limits.block if self.limits.caching else 0,
            keep_s=keep_s(body),
            index=index,
            call=call,
        )  # fmt: skip

    def _room(self, prompt: array[int], limit: int | None, field: str) -> int:
        """Most tokens of the answer: the limit, or what the context leaves."""
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
                f"{field}={limit} cannot be greater than max_model_len={context}. Please request fewer output tokens.",
                field,
                limit,
            )
        limit = room if limit is None else min(limit, room)
        if not limit:
            raise unfit("max_tokens must be at least 1, got 0.", "max_tokens", 0)
        return limit

    def _drawn(
        self, body: Mapping[str, Any], prompt: array[int], limit: int, output: int, index: int
    ) -> tuple[Tokenizer, bool]:
        """The answer: its words and length are drawn from prompt and seed, so equal requests have equal answers.

        With whether its length is dictated.
        """
        least = whole(body, "min_tokens", least=0) or 0
        if least > limit:
            raise Refused(400, f"min_tokens must be less than or equal to max_tokens={limit}, got {least}.")
        chance = self._chance
        chance.key = chain(prompt, len(prompt), ((whole(body, "seed") or 0) + index) & _U64)[0]
        bits = chance.bits("words")
        if output:
            return Tokenizer(bits, min(output, limit), output < limit), True
        if body.get("ignore_eos") or least == limit:
            return Tokenizer(bits, limit, False), True
        low = max(least, 1)
        high = max(min(limit, LIKELY), low)
        length = low + (chance.bits("length") * (high - low + 1) >> 64)
        return Tokenizer(bits, length, length < limit), False

    def _ids(self, body: Mapping[str, Any], model: str, computed: array[int]) -> tuple[int, ...]:
        """The whole blocks of prompt and answer; the answer's last token is never computed."""
        if not self.limits.caching:
            return ()
        salt = body.get("cache_salt")
        if salt is not None and not (isinstance(salt, str) and salt):
            raise unfit("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
        if model in self.limits.adapters:
            salt = f"{salt or ''}\0{model}"
        return chain(computed, self.limits.block, salted(salt or ""))
