"""Rows for processes of `make gpu`, in a module that imports nothing slow: these start at once."""

import os
import time

from posenc.bench.case import Unavailable
from posenc.bench.gpu.row import Found, Place
from posenc.errors import UnsupportedError


def give(place: Place, value: float) -> Found:
    return {"value": value, "process": os.getpid()}


def refuse(place: Place) -> Found:
    raise UnsupportedError("so")


def lack(place: Place) -> Found:
    raise Unavailable("so")


def fail(place: Place) -> Found:
    raise ValueError("so")


def die(place: Place) -> Found:
    os._exit(9)


def hang(place: Place) -> Found:
    time.sleep(60)
    return {}
