"""Orders of the gateway: whom it sends first of those that it holds. One file each, named as the field names it."""
