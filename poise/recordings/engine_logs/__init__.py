"""Step costs from the lines that vLLM and SGLang log: lines, the windows between them, and the fit."""
