"""A tiny Llama with random weights, as a folder that vLLM loads and whose tokenizer Poise reads."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from poise.live.emulator.tokens import WORDS

VOCABULARY: Final = 4096
LAYERS: Final = 4
WIDTH: Final = 256
HEAD: Final = 64
CONTEXT: Final = 4096

SPECIAL: Final = ("<s>", "</s>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make(folder: Path) -> Path:
    """Write the model."""
    folder.mkdir(parents=True, exist_ok=True)
    size = tokenizer(folder)
    _write(folder / "config.json", _config(size))
    _save(folder / "model.safetensors", dict(weights(size)))
    return folder


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def tokenizer(folder: Path) -> int:
    """Byte-level BPE, in which the words of `poise.live.traffic` are a token each; how many tokens there are."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(_text(), trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
            "unk_token": "<unk>", "pad_token": "</s>", "chat_template": TEMPLATE, "model_max_length": CONTEXT,
        },
    )  # fmt: skip
    return int(made.get_vocab_size())


def _text() -> Iterator[str]:
    """What the tokenizer learns from: the words of made traffic, often, and words of any letters."""
    chance = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    others = [" " + "".join(chance.choices(letters, k=chance.randint(1, 9))) for _ in range(4000)]
    for _ in range(20):
        yield "".join(WORDS)
    for _ in range(200):
        yield "".join(chance.choices(others, k=100))


def _config(size: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": size, "hidden_size": WIDTH,
        "intermediate_size": 3 * WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": WIDTH // HEAD,
        "num_key_value_heads": WIDTH // HEAD // 2, "head_dim": HEAD, "max_position_embeddings": CONTEXT,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16",
    }  # fmt: skip


def weights(size: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Random tensors by their names in safetensors, for so many tokens."""
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return draw.normal(0.0, columns**-0.5, (rows, columns)).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    yield "model.embed_tokens.weight", matrix(size, WIDTH)
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        for part, rows in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2), ("o", WIDTH)):
            yield f"{name}.self_attn.{part}_proj.weight", matrix(rows, WIDTH)
        for part in ("gate", "up"):
            yield f"{name}.mlp.{part}_proj.weight", matrix(3 * WIDTH, WIDTH)
        yield f"{name}.mlp.down_proj.weight", matrix(WIDTH, 3 * WIDTH)
        yield f"{name}.input_layernorm.weight", ones
        yield f"{name}.post_attention_layernorm.weight", ones
    yield "model.norm.weight", ones


def _save(file: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    """Safetensors: the length of a JSON header, the header, and the numbers, here bfloat16 (a float32's upper half)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [at, at + 2 * tensor.size]}
        at += 2 * tensor.size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with file.open("wb") as out:
        out.write(len(head).to_bytes(8, "little") + head)
        for tensor in tensors.values():
            out.write((tensor.view(np.uint32) >> 16).astype("<u2").tobytes())
