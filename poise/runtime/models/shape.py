"""What a decoder is made of; needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding (Su et al., arXiv 2104.09864), and how it is stretched to longer contexts.

    kind: default; linear (positions divided by `factor`); llama3 (low frequencies divided, high ones kept); yarn
    (Peng et al., arXiv 2309.00071). original: the context length of the first training.
    """

    theta: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    low: float = 1.0
    high: float = 4.0
    """llama3: wavelengths of the original length divided by these are the bounds."""
    fast: float = 32.0
    slow: float = 1.0
    """yarn: rotations over the original length at the bounds."""
    amplitude: float | None = None
    """yarn: factor on cosines and sines; None: of the formula."""
    mscale: float = 0.0
    mscale_all: float = 0.0
    """yarn: scales of the logarithm in that formula; 0: not set."""


@dataclass(frozen=True)
class Latent:
    """Widths of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    q_rank: of compressed queries, 0: not compressed. plain, rotary: the parts of a head without and with positions.
    """

    q_rank: int
    kv_rank: int
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: the router's rule and the widths.

    naming: of the weights, `mixtral`, `qwen` or `deepseek`. shared: width of the expert that all tokens pass, 0: none.
    normalised: whether the weights of the chosen experts are divided by their sum. scale: factor on the others.
    groups, kept: the best `kept` of `groups` groups of experts are looked at.
    """

    naming: str
    count: int
    chosen: int
    inner: int
    shared: int = 0
    normalised: bool = True
    scale: float = 1.0
    groups: int = 1
    kept: int = 1


@dataclass(frozen=True)
class Shape:
    """A decoder. `windows` are the tokens that each layer looks back, None: all; `sparse` says which have experts."""

    family: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    context: int
    epsilon: float
    tied: bool
    windows: tuple[int | None, ...]
    sparse: tuple[bool, ...]
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False
    """Norms of each query and key head (Qwen3)."""
    rope: Rope = Rope()
    latent: Latent | None = None
    experts: Experts | None = None
    dropout: float = 0.0
    """Of attention weights; in GPT-2 of embeddings and branches too."""
    std: float = 0.02
    """Of the first weights."""
