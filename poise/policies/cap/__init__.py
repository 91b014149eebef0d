"""Power caps: how fast the devices of a row may run. One file each."""
