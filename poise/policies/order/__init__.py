"""Orders of the gateway: which held request it sends first. One file each, named as in the literature."""
