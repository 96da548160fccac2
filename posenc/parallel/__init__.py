"""Attention over several devices: the part of each, and what they send to one another."""
