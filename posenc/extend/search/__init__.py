"""LongRoPE2's search: how much slower each pair is to turn, by what the model still finds."""
