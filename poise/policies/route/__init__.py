"""Routers: which replica gets a request. One file each, named as in the literature."""
