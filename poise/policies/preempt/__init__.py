"""Preemption: which request is preempted when the KV cache is full."""
