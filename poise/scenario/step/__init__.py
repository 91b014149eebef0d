"""Steps of training as experiments: `kind: step` in a scenario file."""
