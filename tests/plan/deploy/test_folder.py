"""The folder of a plan: every file is there and valid, whole or not at all, and says why where it cannot be."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from ruamel.yaml import YAML

from poise.core.errors import UserError
from poise.plan.deploy import FILES, Setting, refused, write_deployment
from poise.plan.deploy.check import check
from poise.plan.fleet import Fleet
from poise.scenario.load import load
from poise.scenario.serve.load import load_gateway
from tests.depth import examples
from tests.plan.deploy import fleets as drawn
from tests.plan.deploy.fleets import a_pool, a_setting, fleets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


@pytest.mark.deep
@given(fleet=fleets(), setting=drawn.settings)
@settings(max_examples=examples(40))
def test_every_file_is_valid_or_says_why_not(folder: Path, fleet: Fleet, setting: Setting) -> None:
    written = write_deployment(fleet, setting, folder)
    assert written == [folder / name for name in FILES] and sorted(folder.iterdir()) == sorted(written)
    why = refused(fleet, setting)
    assert not {"gateway.yaml", "scenario.yaml"} & why.keys() or "wider than a host" in why["gateway.yaml"]
    for path in written:
        if path.name in why:
            assert why[path.name] in path.read_text(encoding="utf-8")
            assert path.suffix == ".sh" or [*YAML(typ="safe").load_all(path.read_text(encoding="utf-8"))] in (
                [],
                [None],
            )
        elif path.name == "scenario.yaml":
            assert sum(pool.replicas for pool in load(path).scenario.cluster.pools) == fleet.replicas
        elif path.name == "gateway.yaml":
            assert len(load_gateway(path).gateway.engines) == fleet.replicas
        elif path.suffix == ".yaml":
            check(path.read_text(encoding="utf-8"))
    scripts = [path for path in written if path.suffix == ".sh"]
    for path in scripts:
        subprocess.run(["bash", "-n", path], check=True, timeout=30)
        if path.name not in why:
            assert _devices(path) == fleet.devices


def _devices(script: Path) -> int:
    """Devices that all engines of a script are shown."""
    words = script.read_text(encoding="utf-8").split()
    shown = [
        word.partition("=")[2] for word in words if word.startswith(("CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES="))
    ]
    return sum(len(each.split(",")) for each in shown)


def test_a_refused_script_says_why_and_starts_nothing(tmp_path: Path) -> None:
    fleet = Fleet((a_pool(weights="int4"),))
    write_deployment(fleet, a_setting(), tmp_path)
    done = subprocess.run(["bash", tmp_path / "vllm.sh"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "This plan has no vllm.sh: meta-llama/Llama-3.1-8B is published in bf16" in done.stderr
    assert refused(fleet, a_setting()).keys() == {"vllm.sh", "sglang.sh", "kubernetes.yaml"}
    assert not refused(fleet, a_setting(checkpoints={"int4": "someone/Llama-3.1-8B-AWQ"}))


def test_nothing_is_written_where_one_file_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(fleet: Fleet, setting: Setting) -> str:
        raise ZeroDivisionError

    monkeypatch.setitem(FILES, "scenario.yaml", breaks)
    with pytest.raises(ZeroDivisionError):
        write_deployment(Fleet((a_pool(),)), a_setting(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_deployment(Fleet((a_pool(),)), a_setting(), tmp_path / "file" / "plan")


@pytest.mark.parametrize("given", [{"cost_file": "x"}, {"host_devices": 4}, {"gateway_port": 9000, "port": 20000}])
def test_files_repeat_themselves(given: dict[str, Any], tmp_path: Path) -> None:
    fleet = Fleet((a_pool(replicas=3),))
    first, second = (write_deployment(fleet, a_setting(**given), tmp_path / each) for each in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
