"""The emulated engine: `core.Replica` under a real clock, with vLLM's HTTP API, metrics and KV events."""
