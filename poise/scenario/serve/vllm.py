"""The vLLM scheduler with named policies, as `--scheduler-cls poise.scenario.serve.vllm.PoiseScheduler`."""

from __future__ import annotations

from typing import Any

from poise.live.vllm.scheduler import SteeredScheduler
from poise.scenario.serve.inside import policies


class PoiseScheduler(SteeredScheduler):
    """Decides by the policies that `--additional-config '{"poise": {SLOT: NAME, …}}'` names, as a scenario does."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        config = self.vllm_config.additional_config
        self.begin(*policies(config.get("poise", {}) if isinstance(config, dict) else {}))
