"""The emulated engine: `core.Replica` under a real clock, speaking vLLM's HTTP, metrics and KV events."""
