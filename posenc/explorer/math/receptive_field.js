/**
 * After how many layers each query is first reached by each key, when `sees(query, key)` holds in
 * every layer: tokens rows of tokens numbers, 0 where it is not reached within `layers`.
 */
export function firstReached(sees, tokens, layers) {
  const mask = Uint8Array.from({ length: tokens * tokens }, (_, at) =>
    sees(Math.floor(at / tokens), at % tokens) ? 1 : 0,
  );
  const first = Uint16Array.from(mask);
  let reached = mask;
  for (let layer = 2; layer <= layers; layer++) {
    const next = new Uint8Array(tokens * tokens);
    for (let i = 0; i < tokens; i++) {
      for (let m = 0; m < tokens; m++) {
        if (!mask[i * tokens + m]) continue;
        for (let j = 0; j < tokens; j++) {
          if (!reached[m * tokens + j]) continue;
          next[i * tokens + j] = 1;
          // What is seen goes out of sight again where a token does not see itself.
          if (!first[i * tokens + j]) first[i * tokens + j] = layer;
        }
      }
    }
    reached = next;
  }
  return first;
}
