"""Engine discovery: addresses, lists in files, DNS, and changes since the last look."""
