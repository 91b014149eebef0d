"""Shortest prompt first: the least prompt tokens are admitted first, whatever of them may be cached.

Nexus (arXiv 2507.06608) orders its prompts so. Long prompts may starve under a load of short ones.
"""

from __future__ import annotations

from poise.core.request import RequestView


class ShortestPrompt:
    """Admit by prompt tokens, fewest first."""

    def queue(self, request: RequestView) -> int:
        """The prompt's tokens."""
        return request.prompt_tokens
