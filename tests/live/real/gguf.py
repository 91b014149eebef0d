"""The tiny model as a file that llama.cpp loads: GGUF 3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.live.real.model import CONTEXT, HEAD, LAYERS, SPECIAL, TEMPLATE, WIDTH, tokenizer, weights

ALIGNMENT: Final = 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
NORMAL, CONTROL = 1, 3
"""Kinds of tokens."""

NAMES: Final = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.layers": "blk",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def make(folder: Path) -> Path:
    """Write the model; its file."""
    folder.mkdir(parents=True, exist_ok=True)
    size = tokenizer(folder)
    words = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tensors = {_renamed(name): tensor for name, tensor in weights(size)}
    file = folder / "tiny.gguf"
    _save(file, _fields(size, words), tensors)
    return file


def _renamed(name: str) -> str:
    for theirs, ours in NAMES.items():
        name = name.replace(theirs, ours)
    return name


def _fields(size: int, words: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    """The file's metadata: types and values."""
    ids = {each["content"]: each["id"] for each in words["added_tokens"]} | words["model"]["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    assert len(tokens) == size
    merges = [each if isinstance(each, str) else " ".join(each) for each in words["model"]["merges"]]
    return {
        "general.architecture": (STRING, "llama"), "general.name": (STRING, "tiny"),
        "llama.context_length": (UINT32, CONTEXT), "llama.embedding_length": (UINT32, WIDTH),
        "llama.block_count": (UINT32, LAYERS), "llama.feed_forward_length": (UINT32, 3 * WIDTH),
        "llama.attention.head_count": (UINT32, WIDTH // HEAD),
        "llama.attention.head_count_kv": (UINT32, WIDTH // HEAD // 2),
        "llama.attention.layer_norm_rms_epsilon": (FLOAT32, 1e-5),
        "llama.rope.dimension_count": (UINT32, HEAD), "llama.vocab_size": (UINT32, size),
        "tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)), "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
        "tokenizer.ggml.token_type": (ARRAY, (INT32, [CONTROL if each in SPECIAL else NORMAL for each in tokens])),
        "tokenizer.ggml.bos_token_id": (UINT32, ids["<s>"]), "tokenizer.ggml.eos_token_id": (UINT32, ids["</s>"]),
        "tokenizer.chat_template": (STRING, TEMPLATE),
    }  # fmt: skip


def _value(kind: int, value: Any) -> bytes:
    """A value in the file's form."""
    if kind == STRING:
        raw = value.encode()
        return struct.pack("<Q", len(raw)) + bytes(raw)
    if kind == ARRAY:
        of, items = value
        return struct.pack("<IQ", of, len(items)) + b"".join(_value(of, each) for each in items)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def _save(file: Path, fields: dict[str, tuple[int, Any]], tensors: dict[str, NDArray[np.float32]]) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for name, (kind, value) in fields.items():
        head += _value(STRING, name) + struct.pack("<I", kind) + _value(kind, value)
    at = 0
    for name, tensor in tensors.items():  # the shape with the fastest dimension first, float32 as type 0
        shape = tensor.shape[::-1]
        head += _value(STRING, name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, at)
        at += tensor.nbytes
        assert not at % ALIGNMENT
    with file.open("wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for tensor in tensors.values():
            out.write(tensor.astype("<f4").tobytes())
