"""Documents of a JSONL file: `text`, whose bytes are the tokens, or `tokens`, in each line; needs no PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError

Tokens = NDArray[np.int64]


def read_documents(path: Path, vocabulary: int) -> list[Tokens]:
    """All documents; UserError names the line of what cannot be one, or has a token beyond the vocabulary."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a JSONL file of documents") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; give a JSONL file of documents") from None
    found = [_document(line, f"{path}: line {at}", vocabulary) for at, line in enumerate(lines, 1) if line.strip()]
    if not any(len(each) > 1 for each in found):
        raise UserError(f"{path}: has no document of two tokens or more; give a JSONL file of documents")
    return [each for each in found if len(each)]


def _document(line: str, where: str, vocabulary: int) -> Tokens:
    try:
        content: Any = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not ("text" in content or "tokens" in content):
        raise UserError(f'{where}: must be an object with "text" or "tokens"; correct it')
    if "tokens" in content:
        tokens = content["tokens"]
        if not isinstance(tokens, list) or not all(type(each) is int and each >= 0 for each in tokens):
            raise UserError(f'{where}: "tokens" must be a list of whole numbers of at least 0; correct it')
        found = np.array(tokens, np.int64)
    elif isinstance(content["text"], str):
        found = np.frombuffer(content["text"].encode(), np.uint8).astype(np.int64)
    else:
        raise UserError(f'{where}: "text" must be a string; correct it')
    if len(found) and found.max() >= vocabulary:
        raise UserError(
            f"{where}: has the token {found.max()}, the model a vocabulary of {vocabulary}; give a model with more"
        )
    return found
