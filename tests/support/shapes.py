"""The checker of annotations in tests: shapes as written, and whole numbers where floats are."""

from beartype import BeartypeConf, beartype

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
