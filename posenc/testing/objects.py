"""Checks of the object: how it is built, shown, copied and saved."""

import copy
import inspect
import pickle
import sys
from dataclasses import replace
from types import FunctionType

import torch
from torch import Tensor

import posenc
from posenc.encoding import Encoding
from posenc.errors import CheckError
from posenc.positions import Positions
from posenc.terms import DistanceTable
from posenc.testing.fixtures import (
    LENGTH,
    Trial,
    attends,
    copy_of,
    model_for,
    needs,
    require,
    require_close,
    terms_of,
    tokens_for,
)


def effect(encoding: Encoding) -> Tensor:
    """What the encoding, as it is, does to fixed input, in one tensor."""
    trial = replace(Trial.of(encoding), encoding=encoding)
    positions = Positions.build(LENGTH, causal=True)
    return torch.cat([result.flatten() for result in trial.results(positions).values()])


def check_examples(encoding: Encoding) -> None:
    """Its class offers small examples of itself."""
    examples = list(type(encoding).examples())
    require(bool(examples), "examples() yields nothing")
    for example in examples:
        require(isinstance(example, type(encoding)), f"examples() yields {example!r}")


def check_docstring(encoding: Encoding) -> None:
    """Its docstring gives the formula and the source, its class a name."""
    text = inspect.getdoc(type(encoding)) or ""
    require("Source:" in text, "the docstring names no source (a paragraph 'Source: ...')")
    require(bool(type(encoding).name), "the class attribute `name` is empty")
    require(bool(type(encoding).paper), "the class attribute `paper` is empty")


def check_repr(encoding: Encoding) -> None:
    """Its repr shows every setting and evaluates to an equal encoding."""
    for name in inspect.signature(type(encoding)).parameters:
        require(hasattr(encoding, name), f"argument {name!r} is not kept as an attribute")
        require(f"{name}=" in repr(encoding), f"{name!r} is not shown in {encoding!r}")
    known = {name: getattr(posenc, name) for name in dir(posenc) if not name.startswith("_")}
    known |= vars(sys.modules[type(encoding).__module__])
    known |= {type(encoding).__name__: type(encoding)}
    known |= {v.__name__: v for v in encoding.settings().values() if isinstance(v, FunctionType)}
    try:
        twin = eval(repr(encoding), known)
    except Exception as error:
        raise CheckError(f"{encoding!r} does not evaluate: {error}") from error
    require(repr(twin) == repr(encoding), f"{encoding!r} evaluates to {twin!r}")
    for name, value in encoding.settings().items():
        other = twin.settings()[name]
        # Modules are equal only to themselves; their reprs have been compared.
        same = isinstance(value, Encoding) or other == value
        require(same, f"{encoding!r} evaluates to {name}={other!r}, and holds {value!r}")


def check_pickle(encoding: Encoding) -> None:
    """Pickled and deep copies do what the original does."""
    moved = copy_of(encoding)
    copies = {"pickled copy": pickle.loads(pickle.dumps(moved)), "deep copy": copy.deepcopy(moved)}
    for kind, other in copies.items():
        require_close(effect(other), effect(moved), 0.0, kind)


def check_state_dict(encoding: Encoding) -> None:
    """Its state is its parameters alone: no table is saved, none is a float buffer."""
    moved = copy_of(encoding)
    before = effect(moved)
    floats = [name for name, buffer in moved.named_buffers() if buffer.is_floating_point()]
    require(not floats, f"float buffers {floats} would be cast by .bfloat16() and .half()")
    extra = set(moved.state_dict()) - {name for name, _ in moved.named_parameters()}
    require(not extra, f"the state dict holds {sorted(extra)} besides the parameters")
    other = copy.deepcopy(encoding).double().eval().requires_grad_()
    other.load_state_dict(moved.state_dict())
    require_close(effect(other), before, 0.0, "after load_state_dict")


def check_instances_share_nothing(encoding: Encoding) -> None:
    """What one instance computes does not depend on other instances that ran before it."""
    kind = type(encoding)
    instances = [copy_of(encoding)]
    before = [effect(instances[0])]
    for other in kind.examples():
        instances.append(copy_of(other))
        before.append(effect(instances[-1]))
    for instance, alone in zip(reversed(instances), reversed(before), strict=True):
        require_close(effect(instance), alone, 0.0, f"{instance!r} after other instances")
    later = kind(**encoding.settings()).double().eval().requires_grad_()
    later.load_state_dict(instances[0].state_dict())
    require_close(effect(later), before[0], 0.0, "an instance made after others")
    twins = [kind(**encoding.settings()) for _ in range(2)]
    pointers = [{p.data_ptr() for p in twin.parameters()} for twin in twins]
    require(not pointers[0] & pointers[1], "two instances share a parameter's memory")


@needs("safetensors", "numpy")
def check_safetensors(encoding: Encoding) -> None:
    """A model that shares one encoding among its layers survives a safetensors round trip."""
    from safetensors.torch import load, save

    model, other, tokens = model_for(encoding), model_for(encoding), tokens_for()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(load(save(model.state_dict())))
    require_close(other(tokens), model(tokens), 0.0, "after the round trip")


def check_for_model(encoding: Encoding) -> None:
    """`for_model` gives an instance that serves its model up to max_length."""
    sizes = {"heads": 4, "head_dim": 8, "model_dim": 32}
    fitted = type(encoding).for_model(**sizes, max_length=24, train_length=8, causal=True)
    require(isinstance(fitted, type(encoding)), f"for_model gave {fitted!r}")
    for name, size in sizes.items():
        own = getattr(fitted, name)
        require(own in (None, size), f"for_model gave {name}={own} for a model of {size}")
    for length in (1, 8, 24):
        out = model_for(fitted)(tokens_for(length))
        require(bool(torch.isfinite(out).all()), f"not finite at length {length}")
    tables = attends(fitted) and any(isinstance(x, DistanceTable) for x in terms_of(fitted))
    if tables and list(fitted.parameters()):
        trained, reached = (_read(fitted, length) for length in (8, 24))
        for name, read in reached.items():
            late = int((read & ~trained[name]).sum())
            require(
                not late, f"{late} entries of {name} are read by 24 tokens, not by the 8 trained"
            )


def _read(encoding: Encoding, length: int) -> dict[str, Tensor]:
    """Which entries of each parameter the scores read at this length, or the output."""
    trial = Trial.of(encoding, length)
    names, parameters = zip(*trial.encoding.named_parameters(), strict=True)
    seen = trial.scores(causal=True)
    # Softmax does not see what all scores of a row share: of that the output has a gradient which
    # is 0 or not by rounding. Such an entry is read by the scores in any case.
    seen = seen.masked_fill(seen == -torch.inf, 0.0)
    out = trial.attend(causal=True, backend="reference")
    read = [
        torch.autograd.grad(result.sin().sum(), parameters, materialize_grads=True)
        for result in (seen, out)
    ]
    return {name: (s != 0) | (o != 0) for name, s, o in zip(names, *read, strict=True)}


def check_devices(encoding: Encoding) -> None:
    """Its tables are made on the device of the positions, and it moves with .to(device)."""
    positions = Positions.build(LENGTH, causal=True, device="meta")
    for name, result in Trial.of(encoding).to("meta").results(positions).items():
        require(result.is_meta, f"{name} left the device of its input")
