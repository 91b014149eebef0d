"""Small tokenizers of every family, trained in a moment on the same words."""

from __future__ import annotations

import random
from functools import cache

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["<s>", "</s>", "<unk>", "<|user|>", "<|assistant|>", "<|user|>x", "<tool>"]
"""One is the beginning of another: the longest counts."""

EXTRA = [
    AddedToken("<left>", lstrip=True, normalized=False),
    AddedToken("<right>", rstrip=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False),
    AddedToken("Later", normalized=True),
]


def _words() -> list[str]:
    chance = random.Random(0)
    return ["".join(chance.choices("abcdefgh", k=chance.randint(1, 6))) for _ in range(300)]


@cache
def text() -> list[str]:
    """Lines to train on, and to make prompts from."""
    chance, words = random.Random(1), _words()
    return [" ".join(chance.choices(words, k=12)) for _ in range(60)]


@cache
def tokenizer(family: str) -> Tokenizer:
    """bytes: byte-level BPE as GPT-2's.  llama: BPE over a prepended underline.  pieces: Unigram.  words: WordPiece."""
    made, trainer = _FAMILIES[family]()
    made.train_from_iterator(text(), trainer)
    made.add_special_tokens(SPECIAL)
    made.add_tokens(EXTRA)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


def _bytes() -> tuple[Tokenizer, trainers.Trainer]:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return made, trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )


def _llama() -> tuple[Tokenizer, trainers.Trainer]:
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return made, trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)


def _pieces() -> tuple[Tokenizer, trainers.Trainer]:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return made, trainers.UnigramTrainer(vocab_size=200, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)


def _wordpiece() -> tuple[Tokenizer, trainers.Trainer]:
    made = Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made, trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)


_FAMILIES = {"bytes": _bytes, "llama": _llama, "pieces": _pieces, "words": _wordpiece}
FAMILIES = tuple(_FAMILIES)
