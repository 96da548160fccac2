"""`posenc extend`: how far a trained rotary model reads with each method, measured on text."""
