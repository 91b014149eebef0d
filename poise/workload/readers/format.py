"""What a trace format is: which of its columns mean what, and in which unit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from poise.workload.readers.raw import Raw

FIELDS = {
    "arrival_s": "seconds from the start",
    "prompt_tokens": "tokens",
    "output_tokens": "tokens",
    "request_id": "what `after` refers to",
    "after": "predecessors: row numbers from 0, or request ids where there are any",
    "delay_s": "seconds after the last predecessor ended",
    "session": "a name or number",
    "hash_ids": "one id a block; equal ids mean an equal prefix up to there",
    "max_tokens": "the client's limit, 0 for none",
    "priority": "lower goes first",
    "deadline_s": "seconds after arrival, 0 for none",
    "timeout_s": "seconds after arrival, 0 for none",
    "tenant": "a name or number",
    "stage": "a name: which step of its session's program it is",
    "tool": "a name: the tool that the answer calls, empty for none",
    "model": "a name",
    "lora": "a name or number",
    "images": "how many images come with it; prompt_tokens count text alone",
    "audio_s": "seconds of audio that come with it",
}
"""The fields that a reader fills, with their meaning; all but the first three are optional."""

NEEDED = ("arrival_s", "prompt_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Source:
    """The column `column` (normalised name) of a file, which holds a field in units of `unit`: seconds, or tokens."""

    column: str
    unit: float = 1.0


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: for each field the columns that may hold it, the first one present counts.

    `signature`: names that only this format uses together; a file that has them all is taken for it.
    block_tokens: tokens that one of `hash_ids` covers.  prepare: what turns the rows of the file into requests.
    grows: whether the prompt of a request begins with that of the request it waits for.
    whole: whether a file that has a column for each needed field is taken for this format, where no signature decides.
    """

    name: str
    columns: dict[str, tuple[Source, ...]]
    signature: tuple[str, ...] = ()
    block_tokens: int = 512
    prepare: Callable[[Raw], Raw] | None = None
    grows: bool = False
    whole: bool = False

    def matches(self, found: Collection[str]) -> bool:
        """Whether a file with the normalised column names `found` is of this format."""
        if self.whole:
            return set(NEEDED) <= self.fields(found).keys()
        return bool(self.signature) and all(name in found for name in self.signature)

    def fields(self, found: Collection[str]) -> dict[str, Source]:
        """The field each column of a file is read into; fields that the file lacks are absent."""
        chosen = {}
        for field, sources in self.columns.items():
            for source in sources:
                if source.column in found:
                    chosen[field] = source
                    break
        return chosen


def same_names(*names: str) -> dict[str, tuple[Source, ...]]:
    """Fields whose columns bear their own names."""
    return {name: (Source(name),) for name in names}


def normal(name: str) -> str:
    """A column name without case, outer blanks and a byte-order mark, its blanks and hyphens as underscores."""
    return name.strip().lstrip("\ufeff").lower().replace(" ", "_").replace("-", "_")
