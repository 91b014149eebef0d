"""Predictors: how many output tokens a request will have. One file each."""
