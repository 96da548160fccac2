"""What models of the lab learn: one file each, found here by name."""

import importlib
import pkgutil
from typing import Any, TypeGuard

from posenc.errors import SettingError, UnknownNameError
from posenc.lab.spelling import spelled
from posenc.lab.tasks.task import Batch as Batch
from posenc.lab.tasks.task import Task as Task

# The files of what tasks share.
SHARED = ("task", "generated", "tokenized")


def names() -> dict[str, type[Task]]:
    """All tasks by name; a file of this folder holds one."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name not in SHARED:
            loaded = importlib.import_module(f"{__name__}.{module.name}")
            own = [one for one in vars(loaded).values() if _is_task(one)]
            found |= {one.name: one for one in own if one.__module__ == loaded.__name__}
    return found


def task_of(spec: str) -> type[Task] | None:
    """The task of a name with or without settings; None for one that there is no more."""
    return names().get(spec.partition("(")[0].strip())


def has_own_examples(spec: str) -> bool:
    """Whether each seed of a task is tested on examples of its own, or all on the same."""
    task = task_of(spec)
    return task is not None and task.own_examples


def find(text: str, **data: Any) -> Task:
    """The task of a name with settings in brackets behind it, as in copy(letters=26).

    `data` is what only a run has, such as its text. Raises UnknownNameError for a name or a setting
    that there is not.
    """
    name, settings = spelled(text)
    known = names()
    if name not in known:
        raise UnknownNameError("task", name, known)
    try:
        return known[name](**settings, **data)
    except TypeError as error:
        raise SettingError(f"task {text}: {error}") from None


def _is_task(one: object) -> TypeGuard[type[Task]]:
    return isinstance(one, type) and issubclass(one, Task)
