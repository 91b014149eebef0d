"""What is known of a prediction, read from its pools and its estimator."""

from __future__ import annotations

import pytest

from poise.catalogue import device, model
from poise.core.spec import Pool
from poise.cost.origin import Error, How, Origin
from poise.scenario.evidence import conditions, era, kind_of, origin_of, worst


@pytest.mark.parametrize(
    ("name", "origin"), [("H100-SXM-80GB", "measured"), ("MI300X-192GB", "borrowed"), ("L4", "borrowed")]
)
def test_a_device_without_tables_borrows(name: str, origin: str) -> None:
    assert origin_of(Pool(model("llama-3.1-8b"), device(name)), "vllm", "0.14") == origin


def test_the_worst_main_operator_decides() -> None:
    def made(kind: str, how: How) -> Origin:
        return Origin(kind, "bf16", how, "", "", Error(0.1, 0.2))

    good, poor = made("gemm", How.EXTRAPOLATED), made("decode", How.BORROWED)
    assert worst([good]) == "measured"
    assert worst([good, poor]) == "borrowed"
    assert worst([good, poor, made("moe", How.ROOFLINE)]) == "roofline"
    assert worst([]) == "roofline"
    assert worst([good, made("all_reduce", How.BORROWED)]) == "measured"


def test_prefill_decides_the_first_token_and_decode_the_others() -> None:
    llama = model("llama-3.1-8b")
    pools = [
        Pool(llama, device("H100-SXM-80GB"), role="prefill"), Pool(llama, device("L4"), tensor=2, role="decode"),
    ]  # fmt: skip
    first, gaps = (conditions(figure, pools, "vllm", "0.14") for figure in ("ttft", "tpot"))  # type: ignore[arg-type]
    assert (first.device, first.devices, first.disagg) == ("H100-SXM-80GB", 1, True)
    assert (gaps.device, gaps.devices, gaps.disagg) == ("L4", 2, True)


def test_names_of_engines_and_architectures() -> None:
    assert era("vLLM", "0.14.1") == era("vllm", "0.15")
    assert era("an engine", "1.0") == "other"
    assert [kind_of(model(name)) for name in ("llama-3.1-8b", "deepseek-v3", "mixtral-8x7b")] == ["dense", "mla", "moe"]
