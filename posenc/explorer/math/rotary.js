// Su et al. 2021, arXiv:2104.09864: pairs of dimensions turn by an angle that grows with position.

/** The angle of each pair at one position, in radians, from radians per token. */
export function angles(position, inverse) {
  return inverse.map((w) => position * w);
}

/**
 * Where the pairs of a layout are: pair i of r is (i * step, i * step + gap). "half" pairs
 * (i, i + r), "interleaved" (2i, 2i + 1).
 */
export function places(r, layout) {
  return layout === "half" ? { step: 1, gap: r } : { step: 2, gap: 1 };
}

/** Which two dimensions are pair i of r. */
export function pair(i, r, layout) {
  const { step, gap } = places(r, layout);
  return [i * step, i * step + gap];
}

/** x with its pairs turned by these angles; dimensions beyond them pass. */
export function turn(x, angles, layout = "half") {
  const turned = Float64Array.from(x);
  const { step, gap } = places(angles.length, layout);
  for (let i = 0; i < angles.length; i++) {
    const one = i * step;
    const two = one + gap;
    const cos = Math.cos(angles[i]);
    const sin = Math.sin(angles[i]);
    turned[one] = x[one] * cos - x[two] * sin;
    turned[two] = x[one] * sin + x[two] * cos;
  }
  return turned;
}

/**
 * What each pair brings to q . k, q turned by `angles` against k: Re(q conj(k) exp(i angle)),
 * as its cosine part and its sine part. The turned dimensions begin at `start`.
 */
export function pairParts(q, k, r, layout = "half", start = 0) {
  const [cosine, sine] = [new Float64Array(r), new Float64Array(r)];
  const { step, gap } = places(r, layout);
  for (let i = 0; i < r; i++) {
    const one = start + i * step;
    const two = one + gap;
    cosine[i] = q[one] * k[one] + q[two] * k[two];
    sine[i] = q[one] * k[two] - q[two] * k[one];
  }
  return { cosine, sine };
}

/** What the dimensions before and behind r turned pairs bring to q . k. */
export function restDot(q, k, r, start = 0) {
  let total = 0;
  for (let i = 0; i < start; i++) total += q[i] * k[i];
  for (let i = start + 2 * r; i < q.length; i++) total += q[i] * k[i];
  return total;
}

/** q . k after turning q against k by `angles`; each pair times size[i], if given. */
export function turnedDot(q, k, angles, layout = "half", size = null, start = 0) {
  const { cosine, sine } = pairParts(q, k, angles.length, layout, start);
  let total = restDot(q, k, angles.length, start);
  for (let i = 0; i < angles.length; i++) {
    const part = cosine[i] * Math.cos(angles[i]) + sine[i] * Math.sin(angles[i]);
    total += size === null ? part : part * size[i];
  }
  return total;
}
