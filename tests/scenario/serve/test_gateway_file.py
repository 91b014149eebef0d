"""Every mistake in a gateway file is one line: file, line, field, what is there, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from poise.core.errors import UserError
from poise.policies.cache.fixed_ttl import FixedTtl
from poise.scenario.serve.build import plan
from poise.scenario.serve.load import load_gateway
from poise.scenario.serve.schema import Gateway

ENGINES = "engines: [http://127.0.0.1:1]\n"
WRONG = {
    "listen.port": "listen: {port: 70000}",
    "listen.host": "listen: {host: 5}",
    "listen.prot": "listen: {prot: 8000}",
    "listen.tls_cert": "listen: {tls_cert: none.pem, tls_key: none.pem}",
    "listen": "listen: 8000",
    "admin.port": "admin: {port: page}",
    "admin.hosts": "admin: {hosts: 5}",
    "admin.host": "admin: {host: [a]}",
    "engines": "engines: http://127.0.0.1:1",
    "engines.0.url": "engines: [ftp://x]",
    "engines.0.rôle": "engines: [{url: http://x, rôle: a}]",
    "engines.0.role": "engines: [{url: 'http://x', role: cook}]",
    "engines.0.tensor": "engines: [{url: 'http://x', tensor: 0}]",
    "engines.0.models": "engines: [{url: 'http://x', models: a}]",
    "engines.0.api_key_env": "engines: [{url: 'http://x', api_key_env: NO_SUCH_VARIABLE}]",
    "engines.0.prefill_tokens_per_s": "engines: [{url: 'http://x', prefill_tokens_per_s: -1}]",
    "engines.0": "engines: [{url: 'http://x', model: gpt-x, device: H100}]",
    "engines.0.hints": "engines: [{url: 'http://x', hints: vllm}]",
    "engines.0.name": "engines: [{url: 'http://x', name: 5}]",
    "discover.file": "discover: {file: 5}",
    "discover.period_s": "discover: {period_s: 0}",
    "discover.dns": "discover: {dns: 5}",
    "slots": "slots: -1",
    "pools.0.max_replicas": "pools: [{min_replicas: 1}]",
    "pools": "pools: [{max_replicas: 2}]",
    "policies.scaler": "policies: {scaler: kpa}",
    "pools.0.min_replicas": "pools: [{min_replicas: 3, max_replicas: 2}]\npolicies: {scaler: kpa}",
    "pools.1.role": "pools: [{max_replicas: 2}, {max_replicas: 2}]\npolicies: {scaler: kpa}",
    "envoy.port": "envoy: {port: x}",
    "envoy.fallbacks": "envoy: {fallbacks: -1}",
    "policies.router": "policies: {router: fastest}",
    "policies.order": "policies: {order: [fcfs, edf]}",
    "policies.admission": "policies: {admission: {all: []}}",
    "policies.lender": "policies: {lender: infinite_llm}",
    "policies.router.prefix_cache": "policies: {router: {prefix_cache: {tau: 1}}}",
    "policies.color": "policies: {color: red}",
    "shadow": "shadow: fastest",
    "tries": "tries: 0",
    "workers": "workers: 0",
    "share.listen": "share: {peers: ['10.0.0.2:9100']}",
    "share.period_s": "share: {listen: '127.0.0.1:9100', period_s: 0}",
    "belief.period_s": "belief: {period_s: 0}",
    "belief.timeout_s": "belief: {timeout_s: -1}",
    "belief.prefix": "belief: {prefix: reported}",
    "belief.block_tokens": "belief: {block_tokens: 0}",
    "belief.prefix_tokens": "belief: {prefix_tokens: 0}",
    "belief.kv_bind": "belief: {kv_bind: 5}",
    "tenants.unknown": "tenants: {unknown: maybe}",
    "tenants.header": "tenants: {header: 5}",
    "tenants.file": "tenants: {file: [a]}",
    "limits.held_s": "limits: {held_s: -1}",
    "limits.held": "limits: {held: 1.5}",
    "limits.request_s": "limits: {request_s: long}",
    "limits.ttft_s": "limits: {ttft_s: -1}",
    "limits.body_mb": "limits: {body_mb: 0}",
    "limits.bodies_mb": "limits: {body_mb: 20, bodies_mb: 10}",
    "limits.audio_mb": "limits: {audio_mb: 0}",
    "limits.connections": "limits: {connections: 0}",
    "limits.idle_s": "limits: {idle_s: 0}",
    "limits.connect_s": "limits: {connect_s: 0}",
    "limits.first_byte_s": "limits: {first_byte_s: -1}",
    "limits.stall_s": "limits: {stall_s: -1}",
    "limits.drain_s": "limits: {drain_s: -1}",
    "record.file": "record: {text: true}",
    "record.part_mb": "record: {file: a.jsonl, part_mb: 0}",
    "record.part_s": "record: {file: a.jsonl, part_s: -1}",
    "record.text": "record: {file: a.jsonl, text: some}",
    "log.level": "log: {level: loud}",
    "log.format": "log: {format: xml}",
    "log.access": "log: {access: sometimes}",
    "traces.endpoint": "traces: {share: 1}",
    "traces.share": "traces: {endpoint: 'http://x', share: 2}",
    "seed": "seed: -1",
    "polices": "polices: {router: a}",
}


@pytest.mark.parametrize(("field", "text"), WRONG.items(), ids=WRONG)
def test_a_mistake_is_reported_with_its_place_and_its_cure(tmp_path: Path, field: str, text: str) -> None:
    file = tmp_path / "gateway.yaml"
    before = "" if text.startswith("engines") else ENGINES
    file.write_text(f"# a gateway\n{before}{text}\n")
    line = 2 if not before else 3
    with pytest.raises(UserError) as caught:
        made = plan(load_gateway(file))
        pytest.fail(f"{text} was taken: {made}")
    message = str(caught.value)
    assert message.startswith((f"{file}:{line}: {field}: ", f"{file}:{line}: {field} ")), message
    assert "\n" not in message and ("; " in message or "did you mean" in message), message


@pytest.mark.parametrize(("text", "limit_mb"), [("audio_mb: 40", 40), ("bodies_mb: 16", 16), ("body_mb: 30", 30)])
def test_a_sound_has_a_limit_of_its_own_within_that_of_all_bodies(tmp_path: Path, text: str, limit_mb: int) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{ENGINES}limits: {{{text}}}\n")
    limits = plan(load_gateway(file)).settings.clients
    assert limits.body_limit(b"/v1/audio/transcriptions") == limit_mb * 2**20
    assert limits.body_limit(b"/v1/completions") == limits.body_bytes
    file.write_text(f"{ENGINES}limits: {{audio_mb: 20, bodies_mb: 15}}\n")
    with pytest.raises(
        UserError, match=r"bodies_mb: 15 leaves no room for one body of 20 MiB; give more, or less limits\.audio_mb"
    ):
        plan(load_gateway(file))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("slots", "slots: 2000000000"),
        ("pools.0.max_replicas", "pools: [{max_replicas: 2000000000}]\npolicies: {scaler: kpa}"),
    ],
)
def test_counts_that_would_take_the_memory_are_refused(tmp_path: Path, field: str, text: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{ENGINES}{text}\n")
    with pytest.raises(UserError, match=f"{field}: 2000000000 must be at most 100000; "):
        plan(load_gateway(file))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", r":1: engines\.0\.hints: no policy says how long; name policies\.cache"),
        ("policies: {cache: saga}", r":2: policies\.cache: ranks what is evicted, which no hint can say; take"),
        ("policies: {cache: oracle_ttl}", r":2: policies\.cache: needs the future"),
        ("policies: {cache: [continuum, fixed_ttl]}", r":2: policies\.cache: names 2; a gateway has one"),
        ("policies: {cache: fixed_ttl}\nenvoy: {port: 0}", r":1: engines\.0\.hints: a proxy sends requests on itself"),
    ],
)
def test_hints_that_no_engine_can_take_are_refused(tmp_path: Path, more: str, message: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"engines: [{{url: 'http://127.0.0.1:1', hints: dynamo}}]\n{more}\n")
    with pytest.raises(UserError, match=message):
        plan(load_gateway(file))


def test_a_cache_policy_serves_hints_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "engines: [{url: 'http://127.0.0.1:1', hints: dynamo}]\npolicies: {cache: {fixed_ttl: {ttl_s: 9}}}\n"
    )
    made = plan(load_gateway(file))
    assert made.cache == FixedTtl(9) and made.engines[0].hints
    file.write_text(f"{ENGINES}policies: {{cache: fixed_ttl}}\n")
    with pytest.raises(UserError, match=r":2: policies\.cache: acts in a gateway on engines that take hints.*; give"):
        plan(load_gateway(file))


def test_a_file_that_is_no_gateway_file_is_refused_with_what_one_is(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    with pytest.raises(UserError, match=r"gateway\.yaml: no such file; give the path of a gateway file"):
        load_gateway(file)
    file.write_text("# nothing yet\n")
    with pytest.raises(UserError, match=r"gateway\.yaml: is empty; give at least its engines"):
        load_gateway(file)


def test_every_section_is_among_them() -> None:
    found = {field.partition(".")[0] for field in WRONG}
    assert set(Gateway.model_fields) <= found


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("[]", r"keys\.yaml:1: holds no list of tenants"),
        ("[{name: a}]", r"keys\.yaml:1: needs just one of key and sha256"),
        ("- {name: a, key: b}\n- {name: c, key: b}", r"keys\.yaml:2: has the key of 'a'"),
        ("[{name: a, key: b, weight: 0}]", r"keys\.yaml:1: weight is 0"),
        ("[{name: a, key: b, concurrency: -1}]", r"keys\.yaml:1: concurrency is not a valid number"),
        ("[{name: a, key: b, color: c}]", r"keys\.yaml:1: unknown field"),
    ],
)
def test_a_mistake_in_the_key_file_is_reported_without_keys(tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "keys.yaml").write_text(keys)
    file = tmp_path / "gateway.yaml"
    file.write_text(f"{ENGINES}tenants: {{file: keys.yaml}}\n")
    with pytest.raises(UserError, match=message):
        plan(load_gateway(file))


def test_secrets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("engines: [{url: 'http://127.0.0.1:1', api_key_env: ENGINE_KEY}]\nadmin: {token_env: PAGE_TOKEN}\n")
    monkeypatch.setenv("ENGINE_KEY", "sk-secret")
    (engine,) = plan(load_gateway(file)).engines
    assert engine.api_key == "sk-secret" and "sk-secret" not in repr(engine)
    monkeypatch.setenv("ENGINE_KEY", "")
    with pytest.raises(UserError, match=r":1: engines\.0\.api_key_env: the environment has no ENGINE_KEY; set it"):
        plan(load_gateway(file))
