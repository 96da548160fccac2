"""The way into a model, and the parts of it that posenc enters."""

from typing import Any

from torch import nn

from posenc.errors import UnsupportedError
from posenc.models.attach.body import Body, spec_of
from posenc.models.attach.family import Family
from posenc.models.attach.interface import BY_INTERFACE
from posenc.models.attach.own import FAMILIES


def entry(model: Any) -> tuple[Family, Body]:
    """Raises UnsupportedError where there is none, and what `read` raises for its config."""
    spec = spec_of(model)
    family = FAMILIES.get(spec.model_type, BY_INTERFACE)
    return family, family.body(model, spec)


def unwrapped(model: Any) -> Any:
    """The model of transformers in what peft, torch.compile or DistributedDataParallel made."""
    return handles(model)[-1]


def handles(model: Any) -> list[Any]:
    """Each by which the model is called, from the outermost to the model of transformers."""
    found = [model]
    while isinstance(model, nn.Module):
        if isinstance(inner := model._modules.get("_orig_mod"), nn.Module):
            model = inner
        elif isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        elif "base_model" in model._modules and callable(
            base := getattr(model, "get_base_model", None)
        ):
            model = base()
        else:
            break
        found.append(model)
    return found


def check_device(model: Any) -> None:
    """Raise UnsupportedError for layers that compute on several devices."""
    # What accelerate keeps on the processor or on disk is brought to the one device that computes.
    places = dict.fromkeys(getattr(model, "hf_device_map", {}).values())
    devices = [place for place in places if str(place) not in ("cpu", "disk")]
    if len(devices) > 1:
        raise UnsupportedError(
            f"attach({type(model).__name__}) with layers on {', '.join(map(str, devices))}: what a "
            "forward pass says of positions is made once, for one device; load the model on one, "
            "device_map={'': 0} say"
        )
