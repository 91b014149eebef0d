"""Step costs from the logs of vLLM and SGLang: lines, the windows between them, and the fit."""
