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


@peer("learned", "transformers")
def embeddings_of_roberta() -> Iterator[Case]:
    """RobertaEmbeddings, whose padding has a row that is not trained"""
    from transformers import RobertaConfig
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

    for dim, padding in ((12, 1), (80, 0), (80, 3)):
        config = RobertaConfig(
            vocab_size=9,
            hidden_size=dim,
            max_position_embeddings=20,
            pad_token_id=padding,
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
        )
        layer = RobertaEmbeddings(config).double()
        encoding = Learned(dim, 20, padding_idx=padding).double()
        tokens = torch.randint(4, 9, (3, 11))
        tokens[1, 7:] = tokens[2, :5] = padding
        at = layer.create_position_ids_from_input_ids(tokens, padding)

        def ours(
            x: Tensor, layer: RobertaEmbeddings = layer, e: Learned = encoding, at: Tensor = at
        ) -> Tensor:
            segment = layer.token_type_embeddings.weight[0]
            return layer.LayerNorm(e.embed(x, Positions.build(ids=at)) + segment)

        def theirs(x: Tensor, layer: RobertaEmbeddings = layer, at: Tensor = at) -> Tensor:
            return layer(inputs_embeds=x, position_ids=at)

        yield Case(
            f"dim {dim}, padding {padding}",
            ours,
            theirs,
            [torch.randn(3, 11, dim, dtype=torch.float64)],
            [set_alike(encoding.weight, layer.position_embeddings.weight)],
        )
