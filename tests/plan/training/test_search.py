"""The search finds what trying all finds, and says why nothing fits."""

from __future__ import annotations

import json
from functools import partial

import pytest

from poise.catalogue.architecture import architecture
from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.cli import main
from poise.core.errors import ScenarioError
from poise.cost.training import Job, predict, shape
from poise.cost.training.figures import figures
from poise.cost.training.layout import check
from poise.cost.training.schedules import SCHEDULES
from poise.cost.training.step import evaluate
from poise.plan.training.exports import exported
from poise.plan.training.search import kind, must_fit, search
from poise.plan.training.space import Space, columns_of, divisors
from poise.plan.training.trainers import TRAINERS, restricted

JOB = Job(shape(24, 4096, 32), device("A100"), 32, 2048, 64)


def test_the_first_is_the_best_of_all() -> None:
    space = Space(schedule=("one_f_one_b",), tensor=(1, 2, 8), zero=(1,), recompute=("none", "full"))
    cut = columns_of(JOB, space)
    tried = [predict(JOB, cut.layout(row, JOB)) for row in range(len(cut))]
    best = min(each.seconds for each in tried if each.safe(JOB))
    found = search(JOB, space)
    assert found.considered == len(cut)
    assert predict(JOB, found.frontier[0].layout).seconds == pytest.approx(best)
    assert min(predict(JOB, each.layout).seconds for each in found.best) == pytest.approx(best)


def test_the_parts_of_a_simulated_step_make_up_the_step() -> None:
    """Also of V schedules, whose ranks have a stage from each end."""
    for names in (("one_f_one_b", "interleaved", "zb_h1"), ("zb_v", "v_half")):
        for each in search(JOB, Space(schedule=names, pipeline=(2, 4))).best:
            assert sum(each.parts.values()) == pytest.approx(each.seconds, rel=1e-12)
            assert min(each.parts.values()) >= 0
            assert each.bubble == pytest.approx(each.parts["bubble"] / each.seconds)


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b"])
def test_every_layout_of_the_space_can_be_laid_out(name: str) -> None:
    job = Job(model(name), device("H100"), 16, 4096, 32)
    cut = columns_of(
        job, Space(context=(1, 2), zero=(0, 1, 2, 3), expert_tensor=(1, 2), offload_activations=(0.0, 0.5))
    )
    assert set(cut.offload_activations) == {0.0, 0.5} and (set(cut.expert_tensor) == {1, 2}) == (
        job.model.moe is not None
    )
    for row in range(0, len(cut), max(1, len(cut) // 300)):
        check(job, cut.layout(row, job))


def test_activations_in_host_memory_take_less_room_and_never_less_time() -> None:
    space = Space(tensor=(4,), pipeline=(2,), zero=(1,), recompute=("none",), offload_activations=(0.0, 0.5, 1.0))
    cut = columns_of(JOB, space)
    steps = evaluate(JOB, cut, figures(JOB.host))
    for part, less in ((0.0, 0.5), (0.5, 1.0)):
        whole, half = cut.offload_activations == part, cut.offload_activations == less
        assert (steps.memory[half] < steps.memory[whole]).all() and (steps.seconds[half] >= steps.seconds[whole]).all()


def test_the_frontier_trades_time_for_memory() -> None:
    found = search(JOB)
    times = [predict(JOB, each.layout).seconds for each in found.frontier]
    sizes = [each.memory for each in found.frontier]
    assert times == sorted(times)
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("shaped", ["llama-3-8b", "mixtral-8x7b"])
def test_what_is_found_for_a_trainer_has_its_settings(name: str, shaped: str) -> None:
    """The search leaves nothing that the export refuses, in any schedule and sharding."""
    job = Job(model(shaped), device("H100"), 16, 4096, 64)
    found = search(job, restricted(Space(zero=(0, 1, 2, 3), schedule=SCHEDULES, context=(1, 2)), name))
    assert found.alternatives
    for each in (*found.best, *found.alternatives, *found.frontier):
        refused = exported(job, each.layout, partial(architecture, shaped)).refused
        assert name not in refused, each.layout.label()


def test_alternatives_differ_in_more_than_a_setting() -> None:
    found = search(JOB)
    kinds = [kind(each.layout) for each in found.alternatives]
    assert len(set(kinds)) == len(kinds) > 3 and found.alternatives[0] == found.best[0]
    times = [each.seconds for each in found.alternatives]
    assert times == sorted(times)
    own = [each.seconds for each in found.best if kind(each.layout) == kinds[0]]
    assert min(own) == times[0], "of each kind the fastest"
    assert found.answer().startswith(f"Take {found.best[0].layout.label()}: ")
    assert found.alternatives[1].layout.label() in found.answer()


def test_layouts_as_frames_and_as_a_figure() -> None:
    found = search(JOB, Space(pipeline=(1, 2)))
    frame = found.frame()
    assert frame["layout"][0] == found.best[0].layout.label() and frame["on_frontier"].any()
    assert found.to_pandas()["step_s"].to_list() == frame["step_s"].to_list()
    axes = found.plot().axes
    assert [each.get_xlabel() for each in axes[:2]] == ["step, s", "memory, fullest device, GiB"]
    assert axes[0].get_yticklabels()[0].get_text() == found.best[0].layout.label()
    assert found.answer() in found._repr_html_() and len(repr(found)) < 200


def test_what_does_not_fit_is_explained() -> None:
    job = Job(model("llama-3.1-405b"), device("A100"), 8, 8192, 8)
    found = search(job)
    assert not found.best
    with pytest.raises(ScenarioError, match=r"none of [\d,]+ layouts fits 80\.0 GiB of A100-SXM-80GB with 10% free"):
        must_fit(found)


def test_a_space_without_layouts_is_refused() -> None:
    with pytest.raises(ScenarioError, match="no layout of 32 devices"):
        columns_of(JOB, Space(tensor=(3,)))
    with pytest.raises(ScenarioError, match="schedule 'zb' is not searched"):
        Space(schedule=("zb",))
    with pytest.raises(ScenarioError, match="offload_activations 2 is not a part"):
        Space(offload_activations=(0.0, 2.0))


PUBLISHED = {
    "DeepSeek-V3 on 2,048 H800 (arXiv 2412.19437, 3.2)": (
        Job(
            model("deepseek-v3"), device("H800"), 2048, 4096, 15360, precision="fp8_block", nic_bw=50e9, paired=True
        ),
        Space(tensor=(1,), pipeline=(16,), expert=(64,), zero=(1,), micro_batch=(1,), schedule=("zb_h1",)),
        "norm+activation+mla",
    ),
    "Llama-3 70B on 64 H100 (Megatron-Bridge 25.11)": (
        Job(model("llama-3-70b"), device("H100"), 64, 8192, 128, precision="fp8"),
        Space(tensor=(4,), pipeline=(8,), zero=(1,), micro_batch=(1,), chunks=(5,), schedule=("interleaved",)),
        "none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_layouts_are_found_to_fit(name: str) -> None:
    """With a tenth of memory free, and with no more recomputed than was."""
    job, space, recomputed = PUBLISHED[name]
    found = search(job, space)
    assert recomputed in {each.layout.recomputed for each in found.best}
    assert all(each.safe(job) for each in found.best)


def test_words_of_recomputation_are_what_the_model_has() -> None:
    dense = columns_of(JOB, Space(recompute=("none", "operations", "norm+mla", "mla")))
    assert {dense.layout(row, JOB).recomputed for row in range(len(dense))} == {"none", "norm+activation", "norm"}
    with pytest.raises(ScenarioError, match=r"recompute 'rope' is not known; give none, selective, full, operations"):
        Space(recompute=("rope",))
    words = restricted(Space(), "torchtitan").recompute
    assert words == ("none", "norm+activation+products", "full")


def test_divisors() -> None:
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]


def test_plan_as_typed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "plan", "llama-3-8b", "--devices", "H100", "--gpus", "8", "--batch", "32", "--seq", "4096"]
    assert main([*words, "--json", "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["considered"] >= printed["fitting"] > 0
    best = printed["best"][0]
    assert sum(best["memory_by_class"].values()) == pytest.approx(best["memory_bytes"])
    assert main([*words, "--tensor", "2,4"]) == 0
    out = capsys.readouterr().out
    assert "most is lost to " in out and "Time against memory" in out
    assert main([*words, "--tensor", "two"]) == 2
    assert "'two' is not a degree; give whole numbers" in capsys.readouterr().err
    for name in ("--nic", "--between"):
        assert main([*words, name, "1e308"]) == 2
        assert f"{name} 1e+308 is out of range; give Gbit/s per device, 0 to 1,000,000" in capsys.readouterr().err
    assert main([*words, "--for", "nemo"]) == 2
    assert "--for nemo: there are no settings" in capsys.readouterr().err
    assert main([*words, "--for", "torchtitan", "--zero", "1"]) == 2
    assert "--for torchtitan: takes zero 0, 2, 3, not 1; change --zero" in capsys.readouterr().err
    assert main([*words, "--for", "torchtitan", "--json", "-"]) == 0
    zeros = {each["layout"]["zero"] for each in json.loads(capsys.readouterr().out)["alternatives"]}
    assert zeros <= {0, 2, 3}
    words[2] = "llama-3.1-405b"
    assert main(words) == 2
    assert "with 10% free" in capsys.readouterr().err
