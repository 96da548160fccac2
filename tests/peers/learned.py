from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encodings import Learned
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("learned", "transformers")
def embeddings_of_bert() -> Iterator[Case]:
    """BertEmbeddings, the whole layer"""
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertEmbeddings

    for dim, longest, length in ((12, 20, 1), (80, 20, 17), (80, 20, 20)):
        config = BertConfig(
            vocab_size=3, hidden_size=dim, max_position_embeddings=longest, hidden_dropout_prob=0.0
        )
        layer = BertEmbeddings(config).double()
        encoding = Learned(dim, longest).double()
        at = torch.randint(longest, (2, length))

        def ours(
            x: Tensor, layer: BertEmbeddings = layer, e: Learned = encoding, at: Tensor = at
        ) -> Tensor:
            segment = layer.token_type_embeddings.weight[0]
            return layer.LayerNorm(e.embed(x, Positions.build(ids=at)) + segment)

        def theirs(x: Tensor, layer: BertEmbeddings = layer, at: Tensor = at) -> Tensor:
            return layer(inputs_embeds=x, position_ids=at)

        yield Case(
            f"dim {dim}, length {length} of {longest}",
            ours,
            theirs,
            [torch.randn(2, length, dim, dtype=torch.float64)],
            [set_alike(encoding.weight, layer.position_embeddings.weight)],
        )
