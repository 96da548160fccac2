"""Settings as they are typed, name=value, and the encoding that they make."""

import ast
import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from posenc.errors import PosencError, SettingError, UnknownNameError

if TYPE_CHECKING:
    from posenc.encoding import Encoding

# A figure of more dimensions than this has fewer points than they are.
WIDEST = 16_384
SIZES = ("dim", "heads", "head_dim", "model_dim", "columns", "layers", "rotary_dim")
LARGEST = 2**26


def parse(settings: Iterable[str]) -> dict[str, Any]:
    """Values by name: numbers, tuples, True, None as in Python; scalings and encodings by call.

    What is none of these is text: layout=half, scaling=YaRN(4, 4096), dim=64. Raises SettingError
    for what is not name=value, or given twice, and what the called classes raise.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise SettingError(f"{setting!r} is no setting: give name=value, as in dim=64")
        if name in values:
            raise SettingError(f"setting {name!r} is given twice")
        values[name] = _value(text)
    return values


def build(kind: type["Encoding"], settings: dict[str, Any]) -> "Encoding":
    """The first of its examples, with these settings in place of its own; weights drawn anew.

    Weights are those of one seed. A class whose examples cannot be made gets the settings alone.
    Raises UnknownNameError for a setting that it does not have, SettingError for values that it
    does not take.
    """
    import torch

    from posenc.commands.setting_types import check_types

    known = list(inspect.signature(kind).parameters)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise UnknownNameError(f"setting of {kind.__name__}", unknown[0], known)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            example = next(iter(kind.examples()), None)
            if example is not None and not settings:
                return _checked(example)
            defaults = {} if example is None else example.settings()
        except PosencError:
            raise
        except Exception:
            # A stranger's examples may raise anything; the class may do without them.
            defaults = {}
        check_types(kind, settings)
        chosen = defaults | settings
        call = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
        _check_sizes(kind.__name__, chosen)
        with strangers(f"{kind.__name__}({call}) cannot be made"):
            _check_numbers(kind, chosen)
            torch.manual_seed(0)
            return _checked(kind(**chosen))


@contextlib.contextmanager
def strangers(what: str) -> Iterator[None]:
    """Whatever a class raises for wrong values, or because it is wrong, as one message."""
    try:
        yield
    except Exception as error:
        lacking = isinstance(error, ModuleNotFoundError) and error.name == "matplotlib"
        if lacking or isinstance(error, (PosencError, OSError)):
            raise
        text = str(error).partition("\n")[0]
        raise SettingError(f"{what}: {type(error).__name__}: {text}") from error


def _checked(encoding: "Encoding") -> "Encoding":
    sizes = {name: getattr(encoding, name, None) for name in SIZES}
    _check_sizes(type(encoding).__name__, sizes)
    return encoding


def _check_sizes(called: str, sizes: Mapping[str, object]) -> None:
    """Refuse what a figure cannot show, if possible before seconds go by in making it."""
    for name, size in sizes.items():
        if name in SIZES and isinstance(size, int) and size > WIDEST:
            raise SettingError(f"{called} has {name}={size}: figures show at most {WIDEST}")


def _check_numbers(kind: type["Encoding"], settings: dict[str, Any]) -> None:
    """Refuse trained numbers that would fill the memory, counted on a device that holds none."""
    import torch

    try:
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in kind(**settings).parameters())
    except Exception:
        # What is wrong is said where it is made in earnest; some cannot be made without numbers.
        return
    if count > LARGEST:
        call = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        raise SettingError(
            f"{kind.__name__}({call}) would train {count:,} numbers: "
            f"at most {LARGEST:,} are made to be shown"
        )


def _value(text: str) -> Any:
    try:
        return _built(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        if isinstance(error, PosencError):
            raise
        return text


def _built(node: ast.expr) -> Any:
    """The value of an expression without names but those of classes: nothing else is run."""
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    from posenc.commands.setting_types import check_types

    kind = _constructor(node.func)
    shown = ast.unparse(node)
    if any(word.arg is None for word in node.keywords):
        raise SettingError(f"{shown}: give each setting by its name")
    words = {word.arg: _built(word.value) for word in node.keywords if word.arg}
    arguments = [_built(argument) for argument in node.args]
    signature = inspect.signature(kind)
    try:
        check_types(kind, signature.bind(*arguments, **words).arguments)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise SettingError(f"{shown} cannot be made: {error}; it takes {takes}") from error
    with strangers(f"{shown} cannot be made"):
        return kind(*arguments, **words)


def _constructor(name: ast.expr) -> Any:
    """A scaling or an encoding by the name of its class: in capitals or not, after pe. or not."""
    from posenc.catalogue import find
    from posenc.encodings import members

    scalings = _scalings()
    called = ast.unparse(name).removeprefix("pe.").removeprefix("posenc.")
    if called.lower() in scalings:
        return scalings[called.lower()]
    try:
        # What is no name might be a module to import, or no text at all.
        return find(called if called.isidentifier() else "")
    except UnknownNameError as error:
        raise UnknownNameError("scaling or encoding", called, [*members(), *scalings]) from error


def _scalings() -> dict[str, type]:
    """The scalings by their names in lower case."""
    from posenc.encodings import scaling

    # DynamicNTK derives from NTK, so it is no direct child of Scaling.
    kinds = [*scaling.Scaling.__subclasses__(), scaling.DynamicNTK]
    return {kind.__name__.lower(): kind for kind in kinds}
