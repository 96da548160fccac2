// How far pairs turn in training and in a longer text, as posenc's budget finds it.

const TURN = 2 * Math.PI;
const NEAR = 1e-9;

/**
 * Of each pair, in radians: `step` from one token to the next, `own` that of training, `seen` the
 * largest angle of training, `reached` that of a text of `length` tokens; and `fresh`, whether angles
 * there are new.
 *
 * plain and turned are radians per token, in training and in the longer text.
 */
export function reach(plain, turned, trained, length) {
  return Array.from(plain, (w, i) => {
    const [seen, reached] = [w * (trained - 1), turned[i] * (length - 1)];
    // A pair that went round has shown every angle. Interpolation ends within a token of training's.
    return { step: turned[i], own: w, seen, reached, fresh: seen < TURN && reached > w * trained * (1 + NEAR) };
  });
}
