"""Claims for tests: the lines that they share, and a claim of text with some of it changed."""

from __future__ import annotations

import tomllib

from poise.claims.claim import Claim

HEAD = """
system = "Mine"
paper = {year = 2024, trust = "text", group = "caches"}
policies = ["round_robin"]
published = "sooner"
here = "the same"
seeds = 3
"""
"""What a claim states before its experiment; its slot and its conditions are its own."""


def changed(text: str, *changes: tuple[str, str]) -> Claim:
    """The claim of a text in which each old part is replaced by a new one."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Claim.model_validate(tomllib.loads(text))
