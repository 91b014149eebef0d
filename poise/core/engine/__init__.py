"""One engine instance as vLLM v1 schedules it: queue, lanes, batches and KV blocks, in closed form between events."""
