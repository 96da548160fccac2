"""RelativeProjection: which backends read its vectors beside a rotation, and wrong inputs."""

import pytest
import torch

from posenc import (
    Context,
    RelativeProjection,
    Rotary,
    SettingError,
    ShapeError,
    Temperature,
    attend,
)
from tests.support.oracles import drawing


@pytest.mark.parametrize("scale", [None, 0.0, -0.4])
@pytest.mark.parametrize("backend", ["native", "blocked", "sdpa"])
def test_beside_a_rotation_and_a_temperature(backend: str, scale: float | None) -> None:
    draw = drawing(1)
    q, k, v = (draw(2, heads, 40, 8) for heads in (4, 2, 2))
    x = draw(2, 40, 16).requires_grad_()
    parts = [RelativeProjection(16, 4, 7, 3).double(), Rotary(8), Temperature("inkling", 5)]
    both = []
    for name in (backend, "reference"):
        given = {"causal": True, "context": Context(x), "scale": scale, "backend": name}
        out = attend(q, k, v, parts, **given)
        both.append([out, *torch.autograd.grad(out.sin().sum(), x)])
    for found, wanted in zip(*both, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_wrong_settings_and_inputs() -> None:
    with pytest.raises(SettingError, match=r"extent=0.* 1 or more"):
        RelativeProjection(16, 4, extent=0)
    q = torch.zeros(1, 4, 5, 8)
    with pytest.raises(ShapeError, match=r"\(batch, tokens, 16\) is needed, the layer's input"):
        attend(q, q, q, RelativeProjection(16, 4), context=Context(torch.zeros(1, 5, 9)))
    with pytest.raises(ShapeError, match="of 3 tokens for 5 queries"):
        attend(q, q, q, RelativeProjection(16, 4), context=Context(torch.zeros(1, 3, 16)))
