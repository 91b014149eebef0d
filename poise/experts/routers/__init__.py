"""Routers of experts, each a file: scores of tokens and what it remembers in, experts with gates and what it will
remember out.

numpy alone: a trainer converts its tensors, and gradients of losses are given as arrays.
"""
