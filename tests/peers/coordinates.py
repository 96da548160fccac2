from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encodings import Coordinates
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer

# Nodes, eigenvectors and steps.
SIZES = ((5, 3, 4), (12, 11, 16), (40, 8, 20))


def _adjacency(nodes: int) -> Tensor:
    """A connected graph: a ring, and some of the other edges, each with a weight of its own."""
    generator = torch.Generator().manual_seed(nodes)
    weight = torch.rand(nodes, nodes, dtype=torch.float64, generator=generator) + 0.5
    kept = torch.rand(nodes, nodes, generator=generator) < 0.3
    around = torch.eye(nodes).roll(1, 0).bool()
    edges = torch.where(kept | around, weight, 0.0).triu(1)
    return edges + edges.T


@peer("coordinates", "networkx")
def laplacian_eigenvectors() -> Iterator[Case]:
    """normalized_laplacian_matrix and SciPy's eigenvectors, as AddLaplacianEigenvectorPE of PyG"""
    import networkx
    import scipy.linalg

    for nodes, count, _ in SIZES:
        edges = _adjacency(nodes)
        matrix = networkx.normalized_laplacian_matrix(networkx.from_numpy_array(edges.numpy()))
        _, vectors = scipy.linalg.eigh(matrix.toarray())
        at = Positions.graph(edges, eigenvectors=count)
        theirs = torch.from_numpy(vectors[:, 1 : count + 1])
        # An eigenvector has no sign.
        yield _mapped(theirs * (theirs * at.keys.position[0]).sum(dim=0).sign(), at)


@peer("coordinates", "scipy")
def random_walks() -> Iterator[Case]:
    """Diagonals of powers of a sparse matrix of transitions, as AddRandomWalkPE of PyG"""
    import scipy.sparse

    for nodes, _, steps in SIZES:
        edges = _adjacency(nodes)
        walk = scipy.sparse.csr_array(edges / edges.sum(dim=0))
        power, theirs = walk, []
        for _ in range(steps):
            theirs.append(torch.from_numpy(power.diagonal().copy()))
            power = power @ walk
        yield _mapped(torch.stack(theirs, dim=-1), Positions.graph(edges, steps=steps))


def _mapped(theirs: Tensor, at: Positions) -> Case:
    """Added to x by a linear layer with the same weights."""
    nodes, axes = theirs.shape
    encoding, layer = Coordinates(16, axes).double(), torch.nn.Linear(axes, 16).double()
    layer.load_state_dict(encoding.projection.state_dict())
    return Case(
        f"{axes} coordinates of {nodes} nodes",
        lambda x: encoding.embed(x, at),
        lambda x: x + layer(theirs),
        [torch.randn(2, nodes, 16, dtype=torch.float64)],
        list(zip(encoding.projection.parameters(), layer.parameters(), strict=True)),
    )
