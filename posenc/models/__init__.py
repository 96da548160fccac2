"""Models that somebody trained: what their configurations say of positions."""
