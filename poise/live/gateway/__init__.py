"""The gateway: an HTTP proxy between clients and engines that executes the decisions of `Control`."""
