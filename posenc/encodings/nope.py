from posenc.encoding import Encoding, Tags


class NoPE(Encoding):
    """No position encoding: a causal decoder can still count what it sees.

        score[i, j] = scale * q[i] . k[j]

    Source: Haviv et al. 2022, arXiv:2203.16634; named by Kazemnejad et al. 2023, arXiv:2305.19466.
    """

    name = "none"
    family = "none"
    paper = "arXiv:2305.19466"
    tags = Tags(translation_invariant=True, norm_preserving=True)
