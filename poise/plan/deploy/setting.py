"""What the files of a plan need besides its fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from poise.core.spec import Belief, Slo
from poise.cost import Roofline
from poise.scenario.cluster import Recipe


@dataclass(frozen=True, slots=True)
class Setting:
    """The load that the plan was made for, how it was simulated, and where it is deployed.

    workload: the section `workload` of a scenario, files in it by absolute paths.  slo, seeds, warmup_s, belief, cost:
    as simulated.  cost_file: of `poise calibrate`, where `cost` was fitted.  longest: tokens of the longest request
    (0: the model's own limit), which engines must take where their KV cache holds less than that limit.
    scaler: by its name with its parameters, for pools that have bounds.

    engine: what Kubernetes runs (empty: what was simulated); command lines are written for both.
    checkpoints: repository or folder by format of the weights, where that is not the model's own.
    tokenizer: a folder with tokenizer.json; with it the gateway follows engines' KV events, if its router reads
    prefixes.  hosts: names or addresses, in the order in which replicas fill them; empty for names made here.
    host_devices: devices of a host; 0 for the usual number.  port: of the first engine of a host.
    gateway_port: for clients.

    name, namespace: in Kubernetes.  images: of the engine by the device's maker, and of the gateway (`poise`).
    token_secret: a Secret whose key `token` is Hugging Face's.  cache_claim: a PersistentVolumeClaim for weights, which
    many nodes can mount; empty for a folder of each pod.  gateway: the Gateway of the Gateway API whose
    requests Poise places as endpoint picker, in llm-d.yaml.
    """

    workload: Mapping[str, Any]
    slo: Slo = field(default_factory=Slo)
    seeds: tuple[int, ...] = (0,)
    warmup_s: float = 0.0
    belief: Belief = field(default_factory=Belief)
    cost: Recipe = field(default_factory=Roofline)
    cost_file: str = ""
    longest: int = 0
    scaler: Mapping[str, Any] | None = None
    engine: Literal["", "vllm", "sglang"] = ""
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    hosts: tuple[str, ...] = ()
    host_devices: int = 0
    port: int = 8100
    gateway_port: int = 8000
    name: str = "poise"
    namespace: str = "default"
    images: Mapping[str, str] = field(default_factory=dict)
    token_secret: str = "hf-token"
    cache_claim: str = ""
    gateway: str = "inference-gateway"
