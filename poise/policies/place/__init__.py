"""Placers: how many of which units serve a demand. One file each, named as the field names it."""
