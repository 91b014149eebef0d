"""Scalers: how many replicas each pool has. One file each."""
