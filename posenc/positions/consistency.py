"""What several tensors and numbers tell of the same tokens must agree."""

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import check_readable, check_sizes


def sizes(
    told: dict[str, Tensor], q_len: int | None, k_len: int | None, past: int | None
) -> tuple[int, int]:
    """Numbers of queries and keys; every tensor describes all keys."""
    call = "Positions.build"
    if past is not None and past < 0:
        raise PositionsError(f"{call}(past={past}): past counts the tokens before, so it is >= 0")
    batched: dict[str, Tensor] = {}
    for name, tensor in told.items():
        given = tensor.numel() if tensor.ndim < 2 else tensor.shape[1]
        k_len = given if k_len is None else k_len
        if given != k_len:
            raise PositionsError(
                f"{call}: {k_len} keys, but {name}, a tensor of shape {tuple(tensor.shape)}, "
                f"describes {given} tokens: give one entry per key"
            )
        if tensor.ndim > 1 and tensor.shape[0] != 1:
            batched[name] = tensor
    rows = list(batched.values())
    for tensor in rows:
        if tensor.shape[0] != rows[0].shape[0]:
            shapes = " and ".join(
                f"{name} of shape {tuple(x.shape)}" for name, x in batched.items()
            )
            raise PositionsError(
                f"{call}: {shapes} differ in their batch: give one row, or as many"
            )
    if past is not None:
        if k_len is None and q_len is not None:
            k_len = past + q_len
        elif k_len is not None and q_len is None:
            q_len = k_len - past
        if k_len is None or q_len is None or k_len != past + q_len:
            raise PositionsError(
                f"{call}(past={past}): {q_len} queries behind {past} tokens do not make {k_len} "
                "keys: give two of q_len, k_len and past, where k_len = past + q_len"
            )
    k_len = q_len if k_len is None else k_len
    if k_len is None:
        raise PositionsError(f"{call} needs q_len, or a tensor that tells the length")
    q_len = k_len if q_len is None else q_len
    check_sizes(call, q_len, k_len)
    return q_len, k_len


def device_of(
    call: str, told: dict[str, Tensor], otherwise: torch.device | str | None = None
) -> torch.device | str | None:
    """The one device of all tensors, which can be read."""
    devices = {tensor.device for tensor in told.values()}
    if len(devices) > 1:
        places = ", ".join(f"{name} on {tensor.device}" for name, tensor in told.items())
        raise PositionsError(f"{call}: {places}: move them to one device")
    check_readable(call, **told)
    return devices.pop() if devices else otherwise
