"""Bodies of forms with files (multipart/form-data, RFC 7578)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NAME: Final = re.compile(rb'\bname="([^"\r\n]{0,200})"', re.IGNORECASE)
_FILE: Final = re.compile(rb"\bfilename\*?=", re.IGNORECASE)
_DISPOSITION: Final = re.compile(rb"(?:^|\r\n)content-disposition:\s*form-data\s*;([^\r\n]*)", re.IGNORECASE)
MOST: Final = 100
"""Most parts that are read."""


class Form(NamedTuple):
    """The fields of a form, the first of each name, and its files by the names of their fields."""

    fields: dict[str, str]
    files: dict[str, memoryview]


def read_form(body: bytes) -> Form | str:
    """The form in a body, or why there is none. Its first line is the boundary, as all clients write it."""
    end = body.find(b"\r\n", 0, 200)
    if not body.startswith(b"--") or end < 3:
        return "the body is not a form; send multipart/form-data"
    mark, form = b"\r\n" + body[:end], Form({}, {})
    whole, at = memoryview(body), end
    for _ in range(MOST):
        if body.startswith(b"--", at):
            return form
        head = body.find(b"\r\n\r\n", at)
        after = body.find(mark, head + 2 if head >= 0 else at)
        if head < 0 or after < 0:
            return "the form breaks off; send its last boundary"
        found = _DISPOSITION.search(body[at:head])
        name = None if found is None else _NAME.search(found[1])
        if found is not None and name is not None:
            value = whole[head + 4 : max(after, head + 4)]
            key = name[1].decode("utf-8", "replace")
            if _FILE.search(found[1]):
                form.files.setdefault(key, value)
            else:
                form.fields.setdefault(key, str(value, "utf-8", "replace"))
        at = after + len(mark)
    return f"the form has more than {MOST} parts"
