"""What matrices, rotations and reflections do to one vector, as plain loops over Python floats."""

import cmath
import math
from typing import Any

from posenc import terms as t


def entry(table: Any, *index: int) -> Any:
    """table[index[0]][index[1]]..., where a dimension of one entry stands for all."""
    for at in index:
        table = table[at if len(table) > 1 else 0]
    return table


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def multiplied(matrices: list[list[list[float]]], x: list[float]) -> list[float]:
    """Each block of x multiplied by its matrix, the rest as it is."""
    out: list[float] = []
    for matrix in matrices:
        part = x[len(out) : len(out) + len(matrix)]
        out += [dot(row, part) for row in matrix]
    return out + x[len(out) :]


def turned_dot(rotate: t.Rotate, q: list[float], k: list[float], where: tuple[int, ...]) -> float:
    """Re(q conj(k) exp(i (a - b))) of each pair, as complex numbers; the rest as it is."""
    b, h, i, j = where
    a = entry(rotate.q_angle.tolist(), b, h)[i]
    c = entry(rotate.k_angle.tolist(), b, h)[j]
    pairs, start = len(a), rotate.start
    total = dot(q[:start], k[:start]) + dot(q[start + 2 * pairs :], k[start + 2 * pairs :])
    for r in range(pairs):
        one, two = (r, r + pairs) if rotate.layout == "half" else (2 * r, 2 * r + 1)
        q_pair = complex(q[start + one], q[start + two])
        k_pair = complex(k[start + one], k[start + two])
        turned = (q_pair * k_pair.conjugate() * cmath.exp(1j * (a[r] - c[r]))).real
        grown = 0.0
        if rotate.q_log_scale is not None:
            grown = entry(rotate.q_log_scale.tolist(), b, h)[i][r]
            grown += entry(rotate.k_log_scale.tolist(), b, h)[j][r]
        total += rotate.gain**2 * turned * math.exp(grown)
    return total


def reflected(term: t.Householder, k: list[float], tokens: range, b: int, h: int) -> list[float]:
    """k after one reflection for each of these tokens."""
    group = 1 if term.heads is None else term.heads // term.w.shape[1]
    directions = entry(term.w.tolist(), b, h // group)
    betas = entry(term.beta.tolist(), b, h // group)
    for s in tokens:
        far = betas[s] * dot(directions[s], k)
        k = [x - far * y for x, y in zip(k, directions[s], strict=True)]
    return k


def polar_dot(term: t.Polar, q: list[float], k: list[float], where: tuple[int, ...]) -> float:
    """Magnitudes log(1 + exp(x)), at angles that content does not tell."""
    b, h, i, j = where
    q_angles = entry(term.q_angle.tolist(), b, h)[i]
    k_angles = entry(term.k_angle.tolist(), b, h)[j]
    mu_q, mu_k = ([math.log1p(math.exp(x)) for x in side] for side in (q, k))
    parts = zip(mu_q, mu_k, q_angles, k_angles, strict=True)
    return math.fsum(x * y * math.cos(of_k - of_q) for x, y, of_q, of_k in parts)


def turned_value(
    term: t.RotateValues, values: list[float], b: int, h: int, g: int, i: int, j: int
) -> list[float]:
    """A value turned by the angle of its key, less that of the query."""
    assert term.k_angle is not None
    q_angles, k_angles = entry(term.q_angle.tolist(), b, h), entry(term.k_angle.tolist(), b, g)
    out, pairs = list(values), len(q_angles[i])
    for r in range(pairs):
        one, two = (r, r + pairs) if term.layout == "half" else (2 * r, 2 * r + 1)
        one, two = term.start + one, term.start + two
        angle = k_angles[j][r] - q_angles[i][r]
        cos, sin = math.cos(angle), math.sin(angle)
        out[one] = values[one] * cos - values[two] * sin
        out[two] = values[one] * sin + values[two] * cos
    return out
