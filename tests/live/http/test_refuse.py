"""One maker of error bodies: its shape, and that nobody makes another."""

from __future__ import annotations

import json
from pathlib import Path

from poise.live.emulator.refuse import Refused
from poise.live.http.refuse import error_body, openai
from poise.live.requests.parsed_request import BadRequest

LIVE = Path(__file__).parents[3] / "poise" / "live"


def test_the_shape() -> None:
    error = {"message": "é", "type": "t", "param": "p", "code": 400}
    assert json.loads(error_body(400, "t", "é", "p")) == {"error": error}
    assert BadRequest(400, "t", "p", "é", "c").json() == error_body("c", "t", "é", "p")
    assert Refused(400, "é", "t", "p").body() == error_body(400, "t", "é", "p")


def test_faults_are_the_servers_from_500_on() -> None:
    kinds = [json.loads(openai(status, "r"))["error"]["type"] for status in (499, 500)]
    assert kinds == ["invalid_request_error", "server_error"]


def test_there_is_one_maker() -> None:
    makers = [file for file in LIVE.rglob("*.py") if '"error": {' in file.read_text(encoding="utf-8")]
    assert [file.name for file in makers] == ["refuse.py"]
