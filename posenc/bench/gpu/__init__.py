"""The first hour on a GPU: `make gpu`, which is `python -m posenc.bench.gpu`.

Five steps, each of at most ten minutes: whether everything is right there, what the card can do,
how near our kernels come to it, how they stand beside other people's, and what the lab learns. Each
is a list of rows; a row is written to the record as soon as it is known, and rows that are there
already, of this source on this card, are not made again.
"""
