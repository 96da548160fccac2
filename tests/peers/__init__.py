"""Independent implementations, one file per encoding or family; each declares `Peer`s.

They import what they compare with when they run, so a package that is not installed costs only
its own rows. `pip install -e ".[peers]"` brings all of them.
"""
