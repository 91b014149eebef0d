"""Forecasts: how many requests will arrive while a replica starts. One file each."""
