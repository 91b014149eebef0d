"""What published systems claim, as experiments that anyone can run again; one file for each system in `systems/`."""
