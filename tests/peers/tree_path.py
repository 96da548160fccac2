from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encodings import TreePath
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer


@peer("tree_path", "torch")
def pushed_branches() -> Iterator[Case]:
    """What public tree Transformers do, in own words: a step down pushes a branch in front"""
    for nodes, degree, depth, copies in ((1, 1, 2, 2), (7, 2, 3, 4), (40, 3, 5, 1), (60, 5, 2, 3)):
        generator = torch.Generator().manual_seed(nodes)
        parents, paths, children = [-1], [torch.zeros(depth, degree).double()], [0]
        while len(parents) < nodes:
            parent = int(torch.randint(len(parents), (), generator=generator))
            if children[parent] == degree:
                continue
            branch = torch.zeros(1, degree).double()
            branch[0, children[parent]] = 1
            # A step down comes in front, and what is pushed out behind is forgotten.
            paths.append(torch.cat((branch, paths[parent][:-1])))
            children[parent] += 1
            children.append(0)
            parents.append(parent)
        yield _case(torch.tensor(parents), torch.stack(paths), copies)


def _case(parents: Tensor, paths: Tensor, copies: int) -> Case:
    nodes, depth, degree = paths.shape
    dim = copies * depth * degree
    encoding = TreePath(dim, degree, depth).double()
    raw = encoding.raw.detach().clone().requires_grad_()
    at = Positions.tree(parents, degree=degree, depth=depth)

    def theirs(x: Tensor) -> Tensor:
        p = raw.tanh()
        fading = torch.stack([p**level for level in range(depth)]) * (1 - p * p).sqrt()
        table = torch.einsum("nlj,lf->nljf", paths, fading) * (dim / 2) ** 0.5
        return x + table.reshape(nodes, dim)

    return Case(
        f"{nodes} nodes, degree {degree}, depth {depth}, {copies} factors",
        lambda x: encoding.embed(x, at),
        theirs,
        [torch.randn(2, nodes, dim, dtype=torch.float64)],
        [(encoding.raw, raw)],
    )
