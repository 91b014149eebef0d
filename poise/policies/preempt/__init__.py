"""Preemption: who gives way when the KV cache is full."""
