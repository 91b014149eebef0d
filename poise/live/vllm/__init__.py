"""Poise inside an engine: its batcher, queue, preemption and cache policies decide on the engine's own state."""
