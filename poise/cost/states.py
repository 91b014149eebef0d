"""Where engines save the states of recurrent layers, so that a prefix is found again.

A state holds a whole prefix, so one is reused only from a token at which it was saved:

    vLLM            at the end of each block. A block is as many tokens as make a page of attention as large as a state
                    (`mamba_cache_mode` align; `platforms/interface.py`), so a prefix is found in whole such blocks
    SGLang          each 256 tokens (`mamba_track_interval`, with an extra buffer)
    TensorRT-LLM    nowhere: blocks of hybrid models are not reused

Every such place counts as saved: an upper bound of what is found, for engines skip places inside a step's chunk. What
saved states take of memory is not counted.
"""

from __future__ import annotations

from math import ceil

from poise.core.spec import Pool
from poise.cost.formats import framework
from poise.cost.layout import kv_bytes_per_layer

TRACKED = 256
"""Tokens between states that SGLang saves."""

MLA_ALIGNED = 128
"""Tokens of which vLLM's blocks are multiples where hybrid models have latent attention."""


def state_blocks(pool: Pool) -> int:
    """KV blocks between saved states; 1 without recurrent layers, 0 where nothing is found again."""
    linears, block = pool.model.linears(), pool.engine.block_tokens
    if not linears:
        return 1
    engine = framework(pool.engine.name)
    if engine == "trtllm":
        return 0
    return ceil((TRACKED if engine == "sglang" else page_tokens(pool)) / block)


def page_tokens(pool: Pool) -> int:
    """Tokens of a block of vLLM: the fewest whose attention page holds a state; a whole context without attention."""
    attentions = [each for _, each in pool.model.attentions()]
    if not attentions:
        return pool.model.max_context
    aligned = max(MLA_ALIGNED if pool.model.mla else 1, pool.engine.block_tokens)
    state = max(each.state_bytes for _, each in pool.model.linears()) / pool.tensor
    token = max(kv_bytes_per_layer(pool, each) for each in attentions)
    return aligned * ceil(state / (aligned * token))
