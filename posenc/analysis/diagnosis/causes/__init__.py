"""What can be wrong, as rows: the cause, its words, when it applies, and what it changes."""
