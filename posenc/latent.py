"""Multi-head latent attention (MLA): keys and values of all heads out of one vector per token.

Letters: b batch, t tokens, c model dimension, h heads, l latent dimension, r turned dimensions.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.attention import attend, lower_for
from posenc.caches.cache import Cache
from posenc.caches.rollback import unchanged_on_error
from posenc.encoding import Encoding
from posenc.encoding_lists import fitting, owned
from posenc.errors import UnsupportedError, given, one_of, positive, probability, whole
from posenc.lowering import Lowerable, Lowered
from posenc.padding import zeroed
from posenc.positions import Positions
from posenc.terms import (
    DenseBias,
    DistanceTable,
    GridTable,
    Mask,
    Network,
    Offset,
    Rotate,
    Scale,
    SinkLogit,
    Slope,
    Term,
)
from posenc.torch_modes import altered

# What reads no more of a head than its score, for the latent has no keys and values of heads.
_OF_SCORES = (
    *(DistanceTable, Slope, GridTable, Network, Offset),
    *(Scale, SinkLogit, DenseBias, Mask),
)


class LatentAttention(nn.Module):
    """Attention that keeps one latent vector and one turned key per token, for all heads.

        latent[j], turned[j] = norm(down(x[j])[:l]), down(x[j])[l:]
        k[j, h] = (key_up[h] latent[j], turned[j]),   v[j, h] = value_up[h] latent[j]
        q[i, h] = query(x[i]),  of which the last rope_dim dimensions meet turned

    A head has content_dim + rope_dim dimensions, of which the encoding may turn the last rope_dim
    only: Rotary(192, rotary_dim=64, start=-64) is DeepSeek's. absorbed=True computes the same from
    queries mapped into the latent space, key_up[h]^T q, so that keys are (latent, turned) and
    values the latent, one key head for all; a turned content part would stand between the two maps.

    latent_dim        l, the width of the latent
    query_latent_dim  that of queries, which go by a normed latent too; None: straight from x
    value_dim         width of a head's values
    scale             of q . k; None is (content_dim + rope_dim)**-0.5. DeepSeek's YaRN multiplies
                      it by m(mscale_all_dim)**2, as in `pe.read(config).layers[0].scale`

    With LatentCache both forms decode from latents alone. Weights are laid out as DeepSeek's: query
    as q_b_proj or q_proj, down as kv_a_proj_with_mqa, up as kv_b_proj, out as o_proj. Raises
    SettingError for sizes below 1, UnsupportedError for an encoding that turns content or
    reads heads of their own, ShapeError for one of other heads, and what `attend` raises.

    Example: `LatentAttention(5120, 128, Rotary(192, rotary_dim=64, start=-64))(x)`.

    Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1; appendix C has all formulas.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        encoding: Encoding | Sequence[Encoding] | None = None,
        *,
        latent_dim: int = 512,
        content_dim: int = 128,
        rope_dim: int = 64,
        value_dim: int = 128,
        query_latent_dim: int | None = None,
        causal: bool = True,
        dropout: float = 0.0,
        scale: float | None = None,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        sizes = {"latent_dim": latent_dim, "content_dim": content_dim, "rope_dim": rope_dim}
        sizes |= {"dim": dim, "heads": heads, "value_dim": value_dim}
        whole("LatentAttention", **sizes, **given(query_latent_dim=query_latent_dim))
        positive("LatentAttention", eps=eps, **given(scale=scale))
        one_of("LatentAttention", (False, True), causal=causal)
        probability("LatentAttention", dropout=dropout)
        self.heads, self.latent_dim, self.content_dim = heads, latent_dim, content_dim
        self.rope_dim, self.value_dim, self.causal = rope_dim, value_dim, causal
        head_dim = content_dim + rope_dim
        self.scale, self.dropout = head_dim**-0.5 if scale is None else scale, dropout
        self.query_down: nn.Module = nn.Identity()
        if query_latent_dim is not None:
            self.query_down = nn.Sequential(
                nn.Linear(dim, query_latent_dim, bias=False), nn.RMSNorm(query_latent_dim, eps)
            )
        self.query = nn.Linear(query_latent_dim or dim, heads * head_dim, bias=False)
        self.down = nn.Linear(dim, latent_dim + rope_dim, bias=False)
        self.norm = nn.RMSNorm(latent_dim, eps)
        self.up = nn.Linear(latent_dim, heads * (content_dim + value_dim), bias=False)
        self.out = nn.Linear(heads * value_dim, dim, bias=False)
        self.encodings = fitting(encoding, "LatentAttention", heads, head_dim)

    def forward(
        self,
        x: Float[Tensor, "b t c"],
        lowered: Lowerable = None,
        *,
        positions: Positions | Tensor | None = None,
        cache: Cache | None = None,
        memory: Float[Tensor, "b m c"] | None = None,
        absorbed: bool | None = None,
    ) -> Float[Tensor, "b t c"]:
        """What x makes of the memory, which is x itself where None is given, and of the cache.

        lowered   stands in for an encoding that several layers share
        absorbed  whether queries go to the latents, or latents are expanded to heads; the outputs
                  are the same. None: where there is one new token per row and a cache
        """
        absorbed = (cache is not None and x.shape[1] == 1) if absorbed is None else absorbed
        q = self.query(self.query_down(x)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        memory = x if memory is None else memory
        latent, turned = self.down(memory).split((self.latent_dim, self.rope_dim), dim=-1)
        k = torch.cat((self.norm(latent), turned), dim=-1)[:, None]
        key_up, value_up = self._ups()
        with unchanged_on_error(() if cache is None else [cache]):
            encoding = owned(self.encodings) if lowered is None else lowered
            if cache is not None:
                cache.check(encoding, k.shape[2])
            causal = None if isinstance(encoding, Lowered) else self.causal
            terms = lower_for(q, k, encoding, causal, positions, None, cache)
            on_latents = _moved(terms, self.content_dim, self.latent_dim)
            if absorbed:
                content, turning = q.split((self.content_dim, self.rope_dim), dim=-1)
                q = torch.cat((content @ key_up, turning), dim=-1)
                out = self._attend(q, k, k[..., : self.latent_dim], on_latents, cache)
                out = out @ value_up.mT
            else:
                if cache is not None:
                    k = zeroed(k, terms.positions.queries.valid)
                    k, _, on_latents = cache.append(k, k[..., : self.latent_dim], on_latents)
                    terms = altered(
                        _moved(on_latents, self.latent_dim, self.content_dim), keys_prerotated=False
                    )
                latent, turned = k.split((self.latent_dim, self.rope_dim), dim=-1)
                turned = turned.expand(-1, self.heads, -1, -1)
                k = torch.cat((latent @ key_up.mT, turned), dim=-1)
                out = self._attend(q, k, latent @ value_up.mT, terms, None)
        return self.out(out.transpose(1, 2).flatten(-2))

    def _ups(self) -> tuple[Float[Tensor, "h d l"], Float[Tensor, "h d_v l"]]:
        """What makes keys and values of each head out of a latent."""
        by_head = self.up.weight.unflatten(0, (self.heads, -1))
        content, value = by_head.split((self.content_dim, self.value_dim), dim=1)
        return content, value

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, lowered: Lowered, cache: Cache | None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, lowered, cache=cache, scale=self.scale, dropout=dropout)


def _moved(lowered: Lowered, before: int, after: int) -> Lowered:
    """The same terms where what may turn lies behind `after` dimensions, not behind `before`."""
    terms: list[Term] = []
    for term in lowered.terms:
        if isinstance(term, Rotate) and term.start >= before:
            terms.append(altered(term, start=term.start - before + after))
            continue
        if not isinstance(term, _OF_SCORES):
            turned = f"turns dimensions from {term.start} on" if isinstance(term, Rotate) else ""
            raise UnsupportedError(
                f"LatentAttention(content_dim={before}): {type(term).__name__} "
                f"{turned or 'reads the queries, keys or values of a head'}, and content has no "
                f"keys of its own in the latent space: give what turns the "
                "dimensions behind it alone, as Rotary(dim, rotary_dim=rope_dim, start=-rope_dim)"
            )
        terms.append(term)
    # torch 2.7 cannot trace next(generator, default).
    turning = [term for term in terms if isinstance(term, Rotate)]
    form = altered(lowered.form, rotation=turning[0] if turning else None)
    return altered(lowered, terms=tuple(terms), form=form)
