"""Reading `config.json`: round trips, each model class's rules, and errors that name the cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.catalogue.families import FAMILIES
from poise.catalogue.huggingface import from_keys, read_config
from poise.core.errors import UserError
from poise.core.model import Model
from tests.depth import examples

Keys = dict[str, object]

LLAMA: Keys = {
    "model_type": "llama",
    "num_hidden_layers": 6,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 4096,
}
LINEAR: Keys = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}
EXPERTS: Keys = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT: Keys = {"kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}


def read(kind: str = "llama", /, **keys: object) -> Model:
    """The model of class `kind` with the Llama-like keys above and `keys` over them."""
    return from_keys({**LLAMA, "model_type": kind, **keys}, "test", "test")


@given(
    st.integers(1, 80),
    st.integers(1, 16),
    st.integers(1, 8),
    st.integers(1, 256),
    st.integers(1, 8192),
    st.booleans(),
    st.sampled_from([None, 8, 128]),
)
def test_a_dense_model_comes_back_as_it_was_written(
    layers: int, kv_heads: int, group: int, head_dim: int, ffn: int, tied: bool, stated: int | None
) -> None:
    heads = kv_heads * group
    keys = {**LLAMA, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    keys |= {"hidden_size": heads * head_dim, "intermediate_size": ffn, "tie_word_embeddings": tied, "head_dim": stated}
    model = from_keys(json.loads(json.dumps(keys)), "mine", "here")
    assert model == Model(
        "mine", layers, heads * head_dim, heads, kv_heads, stated or head_dim, 100, ffn, 4096, tied=tied, source="here"
    )


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 4), st.integers(0, 5), st.sets(st.integers(0, 45)))
def test_expert_layers_follow_each_spelling_of_the_rule(
    layers: int, step: int, frequency: int, first: int, dense: set[int]
) -> None:
    stepped = read("qwen3_moe", **EXPERTS, num_hidden_layers=layers, decoder_sparse_step=step, mlp_only_layers=[*dense])
    assert stepped.moe is not None
    assert stepped.moe.layers == len(set(range(step - 1, layers, step)) - dense)
    late = read(
        "deepseek_v3",
        **LATENT,
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        num_hidden_layers=layers,
        first_k_dense_replace=first,
        moe_layer_freq=frequency,
    )
    assert late.moe is not None
    assert late.moe.layers == len([i for i in range(0, layers, frequency) if i >= first])


@given(st.lists(st.sampled_from(["full_attention", "sliding_attention", "linear_attention"]), min_size=1, max_size=12))
def test_listed_layer_types_are_counted(types: list[str]) -> None:
    model = read("qwen3_next", **LINEAR, num_hidden_layers=len(types), layer_types=types, sliding_window=64)
    assert model.window_layers == types.count("sliding_attention")
    assert model.linear_layers == types.count("linear_attention")
    assert model.full_layers == types.count("full_attention")
    assert model.window == (64 if model.window_layers else 0)
    assert (model.linear is not None) == bool(model.linear_layers)


@given(st.integers(1, 40), st.integers(1, 9))
def test_one_layer_in_every_so_many_sees_everything(layers: int, period: int) -> None:
    gemma = read("gemma3_text", num_hidden_layers=layers, sliding_window=64, sliding_window_pattern=period)
    assert gemma.full_layers == layers // period
    hybrid = read("qwen3_next", **LINEAR, num_hidden_layers=layers, full_attention_interval=period)
    assert hybrid.full_layers == layers // period
    assert hybrid.linear_layers == layers - layers // period


@pytest.mark.parametrize(
    ("kind", "keys", "window_layers"),
    [
        ("mistral", {}, 0),  # the class's 4096 tokens span this model's whole context
        ("mistral", {"max_position_embeddings": 32768}, 6),
        ("mistral", {"max_position_embeddings": 32768, "sliding_window": None}, 0),
        ("mistral", {"sliding_window": 128}, 6),
        ("llama", {"sliding_window": 128}, 0),
        ("qwen2", {"sliding_window": 128, "use_sliding_window": False, "max_window_layers": 2}, 0),
        ("qwen2", {"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 2}, 4),
        ("gemma2", {"sliding_window": 128}, 3),
        ("gpt_oss", {}, 3),
        ("llama4_text", {"attention_chunk_size": 128}, 5),
        ("llama4_text", {"attention_chunk_size": 128, "no_rope_layers": [1, 0, 1, 0, 1, 0]}, 3),
        ("llama4_text", {"attention_chunk_size": None}, 0),
    ],
)
def test_windows(kind: str, keys: Keys, window_layers: int) -> None:
    assert read(kind, **keys).window_layers == window_layers


@pytest.mark.parametrize(
    ("kind", "keys", "extra"),
    [
        ("llama", {}, 0),
        ("llama", {"attention_bias": True}, 6 * (8 + 4) * 8 + 6 * 64),
        ("llama", {"mlp_bias": True}, 6 * (2 * 160 + 64)),
        ("qwen2", {}, 6 * (8 + 4) * 8),
        ("qwen3", {"head_dim": 8}, 6 * 2 * 8),
        ("gemma2", {"head_dim": 8}, 6 * 2 * 64),
        ("gemma3_text", {"head_dim": 8}, 6 * 2 * 64 + 6 * 2 * 8),
        ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 48}, 6 * (8 + 4) * 8 + 6 * 64),
        ("deepseek_v2", {**LATENT, "q_lora_rank": 12}, 6 * (12 + 16)),
        ("deepseek_v2", LATENT, 6 * 16),
        ("deepseek_v3", {**LATENT, **EXPERTS, "first_k_dense_replace": 2}, 6 * 16 + 4 * 8),
        ("gpt_oss", {"head_dim": 8, **EXPERTS}, 6 * (8 + 4) * 8 + 6 * 64 + 6 * 8 + 6 * 8),
        ("qwen3_next", {**LINEAR, "head_dim": 8, "full_attention_interval": 3}, 2 * 2 * 8 + 2 * 64 * 64),
        ("olmoe", EXPERTS, 6 * (8 + 2) * 8),
    ],
)
def test_weights_beside_the_shape(kind: str, keys: Keys, extra: int) -> None:
    assert read(kind, **keys).extra_parameters == extra


def test_gpt_oss_experts_carry_biases() -> None:
    model = read("gpt_oss", **EXPERTS)
    assert model.expert_parameters == 3 * 64 * 32 + 2 * 32 + 64


@pytest.mark.parametrize(("stated", "shared"), [({}, 0), ({"n_shared_experts": 2}, 2), ({"n_shared_experts": 0}, 0)])
def test_shared_experts_of_deepseek_are_as_wide_as_routed_ones(stated: Keys, shared: int) -> None:
    model = read("deepseek_v3", **LATENT, **EXPERTS, **stated)
    assert model.moe is not None
    assert (model.moe.shared, model.moe.shared_ffn) == (shared, 32 if shared else 0)


def test_a_vision_model_yields_its_language_model(tmp_path: Path) -> None:
    inner = {key: LLAMA[key] for key in ("num_hidden_layers", "hidden_size", "intermediate_size")}
    outer: Keys = {"model_type": "gemma3", "vision_config": {"hidden_size": 7}, "text_config": inner}
    inner["model_type"] = "gemma3_text"
    folder = tmp_path / "gemma"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(outer))
    model = read_config(folder)
    assert (model.name, model.hidden, model.heads, model.vocab) == ("gemma", 64, 8, 262_208)
    assert model.tied
    outer["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(outer))
    assert not read_config(folder / "config.json").tied


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("mamba", {}, "model_type is 'mamba'; known are .*llama"),
        ("llama", {"hidden_size": "64"}, "hidden_size is '64'; a whole number of at least 1"),
        ("llama", {"hidden_size": None}, "hidden_size is None; a whole number"),
        ("llama", {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ("llama", {"num_hidden_layers": True}, "num_hidden_layers is True"),
        ("llama", {"vocab_size": 1.5}, "vocab_size is 1.5"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads is 3; it must divide num_attention_heads, 8"),
        ("llama", {"hidden_size": 65}, "head_dim is missing; it is needed"),
        ("llama", {"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'; true or false"),
        ("llama", {"layer_types": ["full_attention"]}, "layer_types is .*; it must list num_hidden_layers, 6"),
        ("llama", {"layer_types": ["mamba"] * 6}, "layer_types is .*'mamba' is none of full_attention"),
        ("llama", {"layer_types": "full"}, "layer_types is 'full'; a list of strings"),
        ("llama4_text", {"no_rope_layers": [1, 0]}, "no_rope_layers is .*; it must list"),
        ("llama4_text", {"no_rope_layers": "yes"}, "no_rope_layers is 'yes'; a list of whole numbers"),
        (
            "qwen3_moe",
            {"num_experts": 4, "num_experts_per_tok": 5},
            "num_experts_per_tok is 5; it must not exceed the 4",
        ),
        ("qwen3_moe", {"num_experts": 4}, "num_experts_per_tok is missing"),
        ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 9}, "use_sliding_window is True; which layers"),
        ("deepseek_v3", {**LATENT, **EXPERTS, "moe_layer_freq": [0, 1]}, r"moe_layer_freq is \[0, 1\]"),
        ("deepseek_v3", {"kv_lora_rank": 16}, "qk_rope_head_dim is missing"),
        ("qwen3_next", {}, "linear_num_key_heads is missing"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(kind: str, keys: Keys, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(kind, **keys)
    assert str(caught.value).startswith("test: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [["llama"], None, 3])
def test_a_model_type_must_be_a_known_string(kind: object) -> None:
    with pytest.raises(UserError, match="model_type is"):
        from_keys({**LLAMA, "model_type": kind}, "test", "test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{\n  broken", "line 2 is not JSON"),
        (b"[1, 2]", "holds no JSON object"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"{}", "model_type is missing"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_config(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "config.json", tmp_path / "no" / "config.json"):
        with pytest.raises(UserError, match=r"config\.json: cannot be read \(No such file"):
            read_config(path)


@pytest.mark.deep
@pytest.mark.parametrize("kind", sorted(FAMILIES))
@settings(max_examples=examples(100))
@given(data=st.data())
def test_no_key_breaks_the_reader_in_an_unnamed_way(kind: str, data: st.DataObject) -> None:
    """Whatever stands behind a key, the reader answers with a model or with a UserError."""
    odd: st.SearchStrategy[object] = st.sampled_from([None, True, 0, -1, 3, 2.5, "x", [], [1], ["full_attention"], {}])
    base = {**LLAMA, **LINEAR, **EXPERTS, **LATENT, "ffn_dim": 32}
    names = st.sampled_from(
        sorted([*base, "layer_types", "head_dim", "sliding_window", "attention_bias", "moe_layers"])
    )
    changes = data.draw(st.dictionaries(names, odd, max_size=3))
    try:
        model = from_keys({**base, "model_type": kind, **changes}, "test", "test")
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert model.parameters >= model.active_parameters > 0
