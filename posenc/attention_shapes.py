"""Which tensors are the queries, keys and values of one attention."""

from torch import Tensor

from posenc.errors import ShapeError
from posenc.torch_modes import FLOATS


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ShapeError unless these are queries, keys and values of one attention."""
    if _fit(q, k, v):
        return
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"(batch, heads, tokens, head dimension) is needed, got {shapes}")
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise ShapeError(f"floating-point tensors are needed, got {q.dtype}, {k.dtype}, {v.dtype}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype not in FLOATS:
            raise ShapeError(
                f"{name} is {x.dtype}, in which nothing can be added up: give float16, bfloat16, "
                f"float32 or float64, {name}.to(torch.bfloat16)"
            )
        if x.shape[1] == 0 or x.shape[3] == 0:
            raise ShapeError(f"at least one head of one dimension is needed, got {shapes}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            "q and k must share batch and head dimension, k and v batch, heads and tokens; "
            f"got {shapes}"
        )
    raise ShapeError(
        f"{q.shape[1]} query heads and {k.shape[1]} key heads: "
        "grouped-query attention needs a multiple"
    )


def _fit(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether there is nothing for `check_shapes` to say."""
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
        return False
    dtype = q.dtype
    if dtype not in FLOATS:
        return False
    if not k.dtype == v.dtype == dtype and (k.dtype not in FLOATS or v.dtype not in FLOATS):
        return False
    batch, heads, _, dim = q_shape
    k_batch, key_heads, keys, k_dim = k_shape
    v_batch, value_heads, values, v_dim = v_shape
    if not batch == k_batch == v_batch or dim != k_dim or key_heads != value_heads:
        return False
    some = keys == values and heads != 0 and key_heads != 0 and dim != 0 and v_dim != 0
    return some and heads % key_heads == 0
