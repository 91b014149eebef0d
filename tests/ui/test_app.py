"""What the page answers, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from poise.ui import app as module
from poise.ui.app import app
from poise.ui.folder import Folder
from tests.ui.house import SMALL

TOKEN, COOKIE = "sesame-sesame", "poise_ui_80"
BASE = "http://127.0.0.1"
TRACE = "created at,in tok,out tok\n0,100,10\n1,200,20\n3,300,30\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "ui")


@pytest.fixture
def stranger(folder: Folder) -> Iterator[TestClient]:
    with TestClient(app(folder, TOKEN, COOKIE, "127.0.0.1"), BASE, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    assert stranger.get(f"/?token={TOKEN}").status_code == 200
    return stranger


def error(answer: Any) -> str:
    assert answer.status_code == 400, answer.text
    found: str = answer.json()["error"]
    assert "\n" not in found
    return found


SECRET = "sixteen tons"
PATHS = ("/", "/ui.js", "/ui.css", "/events", "/api/traces", "/api/beside?run=a&run=b", "/runs/a/report.html", "/none")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("query", ["", "token=", "token=wrong", f"token={TOKEN}x"])
def test_without_the_token_there_is_nothing(stranger: TestClient, path: str, query: str) -> None:
    answer = stranger.get(f"{path}{'&' if '?' in path else '?'}{query}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_token_is_no_key_to_other_paths(stranger: TestClient) -> None:
    assert stranger.get(f"/api/traces?token={TOKEN}").status_code == 403


def test_a_wrong_cookie_is_refused(stranger: TestClient) -> None:
    assert stranger.get("/", headers={"cookie": f"{COOKIE}=wrong"}).status_code == 403
    assert stranger.get("/", headers={"cookie": f'{COOKIE}="; \x00'}).status_code == 403


def test_the_token_becomes_a_cookie_that_other_sites_cannot_use(stranger: TestClient) -> None:
    given = stranger.get(f"/?token={TOKEN}").headers["set-cookie"]
    assert given == f"{COOKIE}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert stranger.get("/api/traces").json() == []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_a_name_that_was_pointed_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:80", "[::1]:80", "LOCALHOST"])
def test_addresses_and_localhost_are_known(client: TestClient, host: str) -> None:
    headers = {"host": host, "cookie": f"{COOKIE}={TOKEN}"}
    assert client.get("/api/traces", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:81"])
def test_another_site_may_not_ask(client: TestClient, origin: str) -> None:
    for call in (client.post, client.put):
        assert call("/api/runs", content=b"{}", headers={"origin": origin}).status_code == 403
    assert client.get("/api/traces", headers={"origin": origin}).status_code == 403


def test_the_page_itself_may_ask(client: TestClient) -> None:
    answer = client.post("/api/preview", json=SMALL, headers={"origin": BASE})
    assert answer.json()["shell"] == "poise compare runs/compare/scenario.yaml --out runs/compare"


def test_every_answer_has_headers_that_keep_others_out(client: TestClient) -> None:
    for path in PATHS[:3]:
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../secret.txt", "/runs/%2e%2e/secret.txt", "/runs/..%2f..%2fsecret.txt/x",
        "/runs/run/..%2f..%2fsecret.txt",
        "/runs/run/%2e%2e", "/runs/run/link.txt", "/runs/linked/secret.txt", "/runs/run/.hidden", "/runs/run/cells",
        "/runs/run/cells%2fcell.json", "/runs//etc/passwd", "/runs/run/%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(client: TestClient, folder: Folder, path: str) -> None:
    (folder.root.parent / "secret.txt").write_text(SECRET)
    run = folder.runs / "run"
    (run / "cells").mkdir(parents=True)
    (run / "cells" / "cell.json").write_text(SECRET)
    (run / ".hidden").write_text(SECRET)
    (run / "link.txt").symlink_to(folder.root.parent / "secret.txt")
    (folder.runs / "linked").symlink_to(folder.root.parent)
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a.csv", "a.csv"), ("my trace (1).csv.gz", "my_trace_1_.csv.gz"), ("..\\..\\evil.csv", "evil.csv"),
        (".csv", None), ("evil", None), ("run.sh", None), ("..%2F..%2Fevil.csv", None), ("-rf.jsonl", "rf.jsonl"),
        ("x" * 300 + ".parquet", "x" * 62 + ".parquet"),
    ],
)  # fmt: skip
def test_a_dropped_file_gets_a_plain_name(client: TestClient, folder: Folder, name: str, kept: str | None) -> None:
    before = files(folder.root.parent)
    answer = client.put(f"/api/traces/{name}", content=TRACE)
    assert answer.status_code == (200 if kept else 400 if "%" not in name else 404)
    assert files(folder.root.parent) - before == ({f"ui/traces/{kept}"} if kept else set())
    if kept:
        assert answer.json() == {"name": kept}
        assert (folder.traces / kept).read_text() == TRACE


def test_a_second_file_of_a_name_replaces_nothing(client: TestClient, folder: Folder) -> None:
    names = [client.put("/api/traces/a.csv", content=text).json()["name"] for text in ("1", "2", "3")]
    assert names == ["a.csv", "a-2.csv", "a-3.csv"]
    assert [(folder.traces / name).read_text() for name in names] == ["1", "2", "3"]


@pytest.mark.parametrize("expected", [True, False])
def test_a_file_that_is_too_large_is_refused(
    client: TestClient, folder: Folder, monkeypatch: pytest.MonkeyPatch, expected: bool
) -> None:
    monkeypatch.setattr(module, "TRACE_BYTES", 1000)
    content = b"x" * 1001 if expected else (b"x" * 100 for _ in range(11))
    assert client.put("/api/traces/a.csv", content=content).status_code == 413
    assert files(folder.traces) == set()
    assert client.put("/api/traces/a.csv", content=b"x" * 1000).status_code == 200


def test_a_form_that_is_too_large_is_refused(client: TestClient) -> None:
    assert client.post("/api/preview", content=b" " * 100_000).status_code == 413


def test_columns_are_suggested_and_then_read(client: TestClient) -> None:
    client.put("/api/traces/a.csv", content=TRACE)
    result = client.post("/api/look", json={"trace": "a.csv"}).json()
    suggested = {"arrival_s": "created_at", "prompt_tokens": "in_tok", "output_tokens": "out_tok"}
    assert result["missing"] == list(suggested)
    assert result["suggested"] == suggested
    assert result["columns"] == ["created_at", "in_tok", "out_tok"]
    assert result["summary"] == ""
    result = client.post("/api/look", json={"trace": "a.csv", "columns": suggested}).json()
    assert result["missing"] == []
    assert result["summary"] == ("3 requests over 3 s, 0.6667 req/s; prompts of 200 tokens in the mean, outputs of 20")


def test_a_bad_row_has_the_message_of_the_commands(client: TestClient) -> None:
    client.put("/api/traces/a.csv", content="arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,many,10\n")
    result = client.post("/api/look", json={"trace": "a.csv"}).json()
    assert result["error"].startswith("a.csv, line 3: prompt_tokens is 'many'")
    result = client.post("/api/look", json={"trace": "a.csv", "skip_bad": True}).json()
    assert result["summary"].endswith("; 1 bad rows skipped")


def test_what_is_no_trace_is_an_error(client: TestClient) -> None:
    client.put("/api/traces/a.csv", content="")
    assert error(client.post("/api/look", json={"trace": "a.csv"})).startswith("a.csv: the file is empty")
    for name in ("none.csv", "../../secret.csv", ""):
        assert "there is none of that name" in error(client.post("/api/look", json={"trace": name}))


def test_the_preview_is_what_a_run_would_be(client: TestClient) -> None:
    result = client.post("/api/preview", json={**SMALL, "name": "my run", "find_collapse": True}).json()
    assert result["name"] == "my_run"
    assert result["shell"] == "poise compare runs/my_run/scenario.yaml --out runs/my_run --find-collapse"
    assert "router: [round_robin, least_requests]" in result["yaml"]
    assert result["lacking"] == ""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"routers": []}, "routers: none is picked"),
        ({"model": "--help"}, "--help"),
        ({"device": "H900"}, "H900"),
        ({"what": "plan", "devices": []}, "devices: none is picked"),
        ({"what": "plan", "devices": ["--out=/etc"]}, "--out=/etc"),
        ({"what": "plan", "devices": ["H100"], "ttft_s": None}, "SLO: no limit is given"),
        ({"what": "plan", "devices": ["H100"], "minimize": "--out"}, "minimize --out"),
    ],
)
def test_what_no_command_can_be_made_of_is_refused_and_not_started(
    client: TestClient, folder: Folder, change: dict[str, Any], expected: str
) -> None:
    form = {**SMALL, **change}
    assert expected in client.post("/api/preview", json=form).json()["lacking"]
    assert expected in error(client.post("/api/runs", json=form))
    assert folder.run_names() == []


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"what": "serve"}', b'{"what": "plan", "shell": "rm"}'])
def test_a_form_with_other_fields_is_an_error(client: TestClient, content: bytes) -> None:
    assert error(client.post("/api/runs", content=content))


def test_runs_side_by_side_need_two_with_results(client: TestClient, folder: Folder) -> None:
    (folder.runs / "a").mkdir()
    assert "pick two or more" in error(client.get("/api/beside?run=a"))
    assert "pick two or more" in error(client.get("/api/beside?run=a&run=a"))
    assert "none of that name" in error(client.get("/api/beside?run=a&run=../b"))
    (folder.runs / "b").mkdir()
    assert "has no result yet" in error(client.get("/api/beside?run=a&run=b"))


def test_a_report_may_run_scripts_but_is_of_no_origin(client: TestClient, folder: Folder) -> None:
    (folder.runs / "a").mkdir()
    (folder.runs / "a" / "report.html").write_text("<script>alert(1)</script>")
    (folder.runs / "a" / "note.html").write_text("<script>alert(1)</script>")
    answer = client.get("/runs/a/report.html")
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/runs/a/note.html").headers["content-type"] == "application/octet-stream"


def test_unknown_runs_are_errors(client: TestClient) -> None:
    for path in ("/api/runs/none/cancel", "/api/runs/none/story"):
        assert error(client.post(path, content=json.dumps({"request": 1})))
    assert error(client.get("/api/runs/none/routers"))
