"""Between terms and backends: what a call computes, with one tensor of each kind.

`form` says what the normal form holds, `normalise` makes it of terms and positions, `pairs` turns
it into tensors over pairs of tokens, for backends that add those to scores.
"""
