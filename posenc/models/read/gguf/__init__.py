"""GGUF files: the header, and what llama.cpp does with what it says."""
