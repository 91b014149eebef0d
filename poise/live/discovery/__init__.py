"""Which engines there are: addresses, lists in files, DNS, and what changed since."""
