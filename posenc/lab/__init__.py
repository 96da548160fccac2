"""The lab: train small models with each encoding on real text, test them longer, report honestly.

`posenc compare` on the command line; `posenc.lab.compare.compare` from Python.
"""
