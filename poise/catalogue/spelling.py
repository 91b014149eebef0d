"""Loose spellings of models and devices: text around a name that does not change its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from poise.core.spec import Format

BRACKETS = re.compile(r"\s*[(\[].*$")
"""The text of a name behind its first bracket."""

_TAIL = re.compile(
    r"[-_ .:,@(\[]+("
    r"99(\.9+)?|edge|interactive|server|offline"  # MLPerf: accuracy targets and scenarios
    r"|instruct|chat|base|it|hf|sft|dpo|latest|main|thinking"  # tuning; revisions
    r"|vllm|sglang|trtllm|trt|onnx|gguf|mlx|safetensors"  # what reads the files
    r"|(nv|mx|amd-)?fp(4|6|8|16)(-?e\dm\d)?([-_ ]v\d)?|bf16|f16|w-\w+-a-\w+|w\d+a(fp)?\d+(kv\d+)?|u?int[48]|[2-8]-?bit"
    r"|awq|gptq|bnb|autoround|marlin|quark|modelopt|q[2-8](_[0-9a-z]){0,2}"
    r"|dyn|dynamic|static|block|blockwise|tensorwise|per-?tensor|per-?channel|ptpc|quantized|quant|kv|g128"
    r")[)\]]*$",
    re.IGNORECASE,
)
"""One part at a name's end that leaves a model's shape as it is. Dates and versions are none: they may change it."""

_OWNERS = re.compile(
    r"^(nvidia|amd|redhatai|neuralmagic|unsloth|thebloke|mlcommunity|mlperf|meta)[-_ ]+", re.IGNORECASE
)
"""Publishers of other makers' models in their own formats, where no slash follows."""

_FORMATS: tuple[tuple[str, Format], ...] = (
    (r"(modelopt_)?(nv|mx|amd)?fp4(_\w+)?|w4a4|e2m1|float4\w*", "fp4"),
    (r"u?int4(_?wo)?|w4a(8|16|fp8)|awq(_int4|_marlin)?|gptq(_int4|_marlin)?|nf4|4_?bit|q4(_\w+)?", "int4"),
    (r"(modelopt_|w8a8_)?fp8\w*|e4m3|f8|float8\w*|ptpc_fp8", "fp8"),
    (r"u?int8(_wo)?|w8a(8|16)(_int8)?|gptq_int8|8_?bit|q8(_0)?|sq", "int8"),
    (r"(bf16|fp16|f16|half|bfloat16|float16)( mixed)?|16_?bit", "bf16"),
)
"""Values of a field that states only a format."""

_FORMATS_IN_NAMES = (
    r"nvfp4|mxfp4|fp4|w4a4",
    r"fp8|w\d+a16|w4a8|w4afp8|u?int[48]|nf4|[2-8]-?bit|q[2-8](_[0-9a-z]){0,2}",
    r"w8a8",
    r"awq|gptq",
    r"bf16|fp16|f16",
)
"""Formats as names spell them; widths of weights come before names of makers."""

_COUNTS = re.compile(
    r"^\d{1,3} ?[x×*] ?(?=[a-z])|(?<=[\w )])(?<![rg]t) ?[x×*] ?\d{1,3}$|\(\d{1,3} ?[x×]\)|\([x×] ?\d{1,3}\)",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"(\d{1,3})(?:g|gb|gib)")
_PLAIN = {"hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6", "gddr6x", "gddr7", "gpu", "gpus", "tensor", "core", "oam", "ac"}
_FORMS = {"hgx": "sxm", "dgx": "sxm", "nvl8": "sxm", "pcie": "pcie", "nvl": "nvl", "nvl72": "nvl72"}


def models_spelled(name: str) -> Iterator[str]:
    """What `name` may be a spelling of, the closest first: without folders and owner, then one tail less at a time."""
    whole = name.strip().rstrip("/").removeprefix("models--").replace("--", "/")
    last = whole.rpartition("/")[2]
    for start in dict.fromkeys((whole, "/".join(whole.split("/")[-2:]), last, _OWNERS.sub("", last))):
        for each in _shortened(start):
            yield each
            yield re.sub(r"^llama-?v(\d)", r"llama-\1", each, flags=re.IGNORECASE)
            if first := re.fullmatch(r"llama-?(\d+b)", each, re.IGNORECASE):  # the size determines the generation
                yield f"llama-1-{first[1]}"
                yield f"llama-2-{first[1]}"


def _shortened(name: str) -> Iterator[str]:
    yield name
    while (shorter := _TAIL.sub("", name)) != name:
        yield shorter
        name = shorter
    if (bare := BRACKETS.sub("", name)) != name:
        yield from _shortened(bare)


def format_spelled(name: str) -> str:
    """The format that a model's name states (`llama3_1-70b-fp8_dyn`: fp8); empty where it states none."""
    words = name.replace("_", "-").lower()
    for pattern in _FORMATS_IN_NAMES:
        pattern = pattern.replace("_", "-")
        if found := re.search(rf"(?<![a-z0-9])({pattern})(?![a-z0-9])", words):
            return found[1]
    return ""


def format_named(word: str) -> Format | None:
    """The format that `word`, in lower case, is a spelling of; None where it is of none."""
    plain = re.sub(r"[-. ](?!mixed)", "_", word)
    return next((found for pattern, found in _FORMATS if re.fullmatch(pattern, plain)), None)


def uncounted(name: str) -> str:
    """A device's name without how many there are (`8x H100`, `H100 x8`)."""
    return _COUNTS.sub("", name).strip()


def counted(name: str) -> int:
    """The number of devices in a device's name (`8x H100`); 0 without one."""
    found = _COUNTS.search(name)
    return int(re.sub(r"\D", "", found[0])) if found else 0


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """A parsed device name: `family` is what remains without its form (`sxm`, `pcie`, `nvl`) and memory.

    memory_gb: 0 where none is stated.
    """

    family: str
    form: str
    memory_gb: int

    @property
    def spellings(self) -> tuple[str, ...]:
        """What the catalogue may list it as, the closest first."""
        memory = f"{self.memory_gb}gb" if self.memory_gb else ""
        joined = (
            f"{self.family}{self.form}{memory}",
            f"{self.family}{memory}",
            f"{self.family}{self.form}",
            self.family,
        )
        return tuple(dict.fromkeys(joined))


def device_words(name: str) -> DeviceWords | None:
    """`name` taken apart; None where it states two forms or two sizes of memory."""
    spaced = re.sub(r"(\d) +(?=(gb|gib)\b)", r"\1", name.lower())
    family, forms, memories = [], set(), set()
    for word in re.findall(r"[a-z0-9]+", spaced):
        if word in _FORMS or re.fullmatch(r"sxm\d?", word):
            forms.add(_FORMS.get(word, "sxm"))
        elif found := _MEMORY.fullmatch(word):
            memories.add(int(found[1]))
        elif word not in _PLAIN:
            family.append(word)
    if len(forms) > 1 or len(memories) > 1:
        return None
    return DeviceWords("".join(family), max(forms, default=""), max(memories, default=0))
