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
from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Encoding
from posenc.errors import CheckError
from posenc.lowering import embeds_only
from posenc.positions import Positions
from posenc.terms import DistanceTable
from posenc.testing.fixtures import (
    LENGTH,
    attends,
    copy_of,
    model_for,
    needs,
    qkv,
    require,
    require_close,
    terms_of,
    tokens_for,
)


def effect(encoding: Encoding, length: int = LENGTH) -> Tensor:
    """What the encoding does to fixed input, in one tensor."""
    if embeds(encoding):
        x = torch.linspace(-1, 1, length * sizes_for(encoding).model_dim, dtype=torch.float64)
        x = encoding.embed(x.view(1, length, -1), Positions.build(length))
        if embeds_only(encoding):
            return x
    q, k, v = qkv(encoding, length)
    context = context_for(encoding, length)
    return attend(q, k, v, encoding, causal=True, context=context)


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
    module = vars(sys.modules[type(encoding).__module__])
    public = {name: getattr(posenc, name) for name in dir(posenc) if not name.startswith("_")}
    own = {type(encoding).__name__: type(encoding)}
    own |= {v.__name__: v for v in encoding.settings().values() if isinstance(v, FunctionType)}
    try:
        made = eval(repr(encoding), public | module | own)
    except Exception as error:
        raise CheckError(f"{encoding!r} does not evaluate: {error}") from error
    require(repr(made) == repr(encoding), f"{encoding!r} evaluates to {made!r}")
    for name, value in encoding.settings().items():
        other = made.settings()[name]
        # Modules are equal only to themselves; their reprs have been compared.
        same = isinstance(value, Encoding) or other == value
        require(same, f"{encoding!r} evaluates to {name}={other!r}, and holds {value!r}")


def check_pickle(encoding: Encoding) -> None:
    """Pickled and deep copies do what the original does."""
    made = copy_of(encoding)
    for kind, other in (
        ("pickled copy", pickle.loads(pickle.dumps(made))),
        ("deep copy", copy.deepcopy(made)),
    ):
        require_close(effect(other), effect(made), 0.0, kind)


def check_state_dict(encoding: Encoding) -> None:
    """Its state is its parameters alone: no table is saved, none is a float buffer."""
    made = copy_of(encoding)
    effect(made)
    floats = [name for name, buffer in made.named_buffers() if buffer.is_floating_point()]
    require(not floats, f"float buffers {floats} would be cast by .bfloat16() and .half()")
    extra = set(made.state_dict()) - {name for name, _ in made.named_parameters()}
    require(not extra, f"the state dict holds {sorted(extra)} besides the parameters")
    other = copy.deepcopy(encoding).double().eval()
    other.load_state_dict(made.state_dict())
    require_close(effect(other), effect(made), 0.0, "after load_state_dict")


def check_instances_share_nothing(encoding: Encoding) -> None:
    """What one instance computes does not depend on other instances that ran before it."""
    kind, made = type(encoding), copy_of(encoding)
    instances, before = [made], [effect(made)]
    for other in kind.examples():
        instances.append(copy_of(other))
        before.append(effect(instances[-1]))
    for instance, alone in zip(reversed(instances), reversed(before), strict=True):
        require_close(effect(instance), alone, 0.0, f"{instance!r} after other instances")
    later = kind(**encoding.settings()).double().eval()
    later.load_state_dict(made.state_dict())
    require_close(effect(later), before[0], 0.0, "an instance made after others")
    twins = [kind(**encoding.settings()) for _ in range(2)]
    pointers = [{p.data_ptr() for p in twin.parameters()} for twin in twins]
    require(not pointers[0] & pointers[1], "two instances share a parameter's memory")


@needs("safetensors", "numpy")
def check_safetensors(encoding: Encoding) -> None:
    """A model that shares one encoding among its layers survives a safetensors round trip."""
    from safetensors.torch import load, save

    model = model_for(encoding)
    tokens = tokens_for()
    other = model_for(encoding)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(load(save(model.state_dict())))
    require_close(other(tokens), model(tokens), 0.0, "after the round trip")


def check_for_model(encoding: Encoding) -> None:
    """`for_model` gives an instance that serves its model up to max_length."""
    made = type(encoding).for_model(
        model_dim=32, heads=4, head_dim=8, max_length=24, train_length=8, causal=True
    )
    require(isinstance(made, type(encoding)), f"for_model gave {made!r}")
    for name, size in (("heads", 4), ("head_dim", 8), ("model_dim", 32)):
        given = getattr(made, name)
        require(given in (None, size), f"for_model gave {name}={given} for a model of {size}")
    for length in (1, 8, 24):
        out = model_for(made)(tokens_for(length))
        require(bool(torch.isfinite(out).all()), f"not finite at length {length}")
    if attends(made) and any(isinstance(term, DistanceTable) for term in terms_of(made)):
        for name, late in _trained_late(copy_of(made), 8, 24).items():
            require(
                not late, f"{late} entries of {name} are read by 24 tokens, not by the 8 trained"
            )


def _trained_late(encoding: Encoding, train_length: int, length: int) -> dict[str, int]:
    """How many entries of each parameter have a gradient at `length`, but none in training."""

    def reached(length: int) -> list[Tensor]:
        leaves = list(encoding.parameters())
        out = attend(*qkv(encoding, length), encoding, causal=True, backend="reference")
        grads = torch.autograd.grad(out.sin().sum(), leaves) if leaves else ()
        return [grad != 0 for grad in grads]

    names = (name for name, _ in encoding.named_parameters())
    pairs = zip(names, reached(train_length), reached(length), strict=True)
    return {name: int((later & ~trained).sum()) for name, trained, later in pairs}


def check_devices(encoding: Encoding) -> None:
    """Its tables are made on the device of the positions, and it moves with .to(device)."""
    made = copy.deepcopy(encoding).to("meta")
    positions = Positions.build(4, causal=True, device="meta")
    if embeds(made):
        x = torch.zeros(1, 4, sizes_for(made).model_dim, device="meta")
        require(made.embed(x, positions).is_meta, "embed left the device of its input")
    if attends(made):
        q = torch.zeros(1, sizes_for(made).heads, 4, sizes_for(made).head_dim, device="meta")
        context = context_for(made, 4, q.dtype, batch=1)
        if context is not None and context.x is not None:
            context = replace(context, x=context.x.to("meta"))
        found = scores(q, q, made, positions=positions, context=context)
        require(found.is_meta, "scores left the device")
