"""Recorded loads of experts: tables, SGLang's files and engines' logs, and files that are none."""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from poise.core.errors import TraceError
from poise.core.experts import ExpertLoad
from poise.core.spec import Pool
from poise.cost.expert_files import read_load
from poise.cost.expert_load import busiest_of

from .pools import DEEPSEEK_V3, H100

torch = pytest.importorskip("torch")

MOE = replace(DEEPSEEK_V3.moe, experts=4, active=2, layers=2)  # type: ignore[type-var]
POOL = Pool(replace(DEEPSEEK_V3, moe=MOE), H100, tensor=1, data=2, expert=2, weights="fp8")
COUNTS = [[1, 2, 3, 2], [0, 4, 4, 0]]
SHARES = ((0.125, 0.25, 0.375, 0.25), (0.0, 0.5, 0.5, 0.0))


def test_a_table_adds_up_equal_pairs(tmp_path: Path) -> None:
    lines = [f"book,{at},{e},{n}" for at, layer in enumerate(COUNTS) for e, n in enumerate(layer)]
    path = tmp_path / "loads.csv"
    path.write_text("\n".join(["domain,layer,expert,count", *lines, *(each.replace("book", "code") for each in lines)]))
    assert read_load(path, POOL) == ExpertLoad(shares=SHARES, source="loads.csv")
    assert read_load(path, POOL).shares == SHARES


@pytest.mark.parametrize("counts", [COUNTS, [COUNTS, [[0] * 4] * 2], [COUNTS] * 3], ids=["sums", "steps", "alike"])
def test_a_json_file_of_logical_counts(tmp_path: Path, counts: object) -> None:
    path = tmp_path / "expert_distribution.json"
    path.write_text(json.dumps({"rank": 0, "logical_count": counts}))
    assert read_load(path, POOL).shares == SHARES


def test_a_recording_of_sglang_is_read_without_pytorch(tmp_path: Path) -> None:
    counts = torch.tensor([COUNTS, COUNTS], dtype=torch.int32)
    path = tmp_path / "expert_distribution_recorder_1.pt"
    torch.save({"rank": 0, "logical_count": counts, "average_utilization_rate_over_window": None}, path)
    assert read_load(path, POOL).shares == SHARES
    torch.save({"rank": 0, "logical_count": torch.tensor(COUNTS).T.contiguous().T}, path)  # strides of a transpose
    assert read_load(path, POOL).shares == SHARES


def test_passes_of_physical_experts_are_added_up_by_the_expert_that_each_holds(tmp_path: Path) -> None:
    physical = torch.tensor([[1, 2, 1, 2, 2], [0, 4, 1, 0, 3]])  # experts 0 1 2 3 and another copy of 2
    names = torch.tensor([[0, 1, 2, 3, 2]] * 2)
    records = [{"forward_pass_id": at, "global_physical_count": physical} for at in range(3)]
    path = tmp_path / "passes.pt"
    torch.save({"records": records, "last_physical_to_logical_map": names}, path)
    assert read_load(path, POOL).shares == SHARES


@pytest.mark.parametrize("zipf", [0.2, 0.7])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_log_gives_the_exponent_that_its_balance_has(tmp_path: Path, engine: str, zipf: float) -> None:
    pool = replace(POOL, model=DEEPSEEK_V3, data=32, expert=32)
    moe, load = DEEPSEEK_V3.moe, busiest_of(ExpertLoad(zipf=zipf), pool)
    assert moe is not None
    lines = ["INFO something else"]
    for step, tokens in enumerate((256, 4096, 1024)):
        pairs = tokens * moe.active * moe.layers
        balance, mean = tokens / load.tokens(tokens), pairs / 32
        if engine == "vllm":
            lines.append(
                f"INFO EPLB step: {step} for model deepseek-v3: avg_tokens={mean:.2f}, "
                f"max_tokens={mean / balance:.0f}, balancedness={balance:.4f}, steps until the next rearrangement: 3000"
            )
        else:
            lines.append(
                f"[Expert Balancedness] forward_pass_id={step} current_pass_balancedness={balance:.04f} "
                f"last_10_average_balancedness=0.500 gpu_physical_count_sum={pairs}"
            )
    path = tmp_path / "server.log"
    path.write_text("\n".join(lines))
    assert read_load(path, pool).zipf == pytest.approx(zipf, abs=0.01)


class Elsewhere:
    """An object that no recording holds."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """What an unpickler without limits would run."""
        return print, ("run",)


def test_a_file_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.pt"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("evil/data.pkl", pickle.dumps({"logical_count": Elsewhere()}))
    with pytest.raises(TraceError, match=r"builtins\.print"):
        read_load(path, POOL)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "layer,expert\n0,0\n", "count"),
        ("a.csv", "layer,expert,count\n0,0,many\n", "many"),
        ("a.csv", "layer,expert,count\n", "no counts"),
        ("a.csv", "layer,expert,count\n0,0,-1\n0,1,2\n", "no counts"),
        ("a.json", "{}", "logical_count"),
        ("a.json", '{"logical_count": [[1, 2], [3]]}', "not the same experts"),
        ("a.json", "[", "cannot be read"),
        ("a.pt", "text", "torch.save"),
        ("a.log", "nothing", "balancedness"),
    ],
)
def test_what_is_no_load_is_refused_in_one_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TraceError, match=words) as error:
        read_load(path, POOL)
    assert "\n" not in str(error.value)
    assert "give a CSV table" in str(error.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read_load(tmp_path / "none.csv", POOL)


def test_a_log_of_one_rank_has_no_balance(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("EPLB step: 1 for model x: avg_tokens=1.00, max_tokens=1, balancedness=1.0000")
    with pytest.raises(TraceError, match="between ranks"):
        read_load(path, replace(POOL, expert=1))
