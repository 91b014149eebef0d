"""Routers: which replica gets a request. One file each, named as the field names it."""
