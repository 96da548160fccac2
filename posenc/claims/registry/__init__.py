"""One claim a file, each with its CLAIM."""
