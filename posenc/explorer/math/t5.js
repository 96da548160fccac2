// Raffel et al. 2020, arXiv:1910.10683, and the authors' code.

/**
 * The bucket of distance k - q, computed in float32 as checkpoints were, each step rounded correctly.
 * A logarithm of torch may be off by one last bit, which moves a boundary in rare settings.
 */
export function bucket(
  distance,
  { buckets = 32, maxDistance = 128, bidirectional = false } = {},
) {
  const size = bidirectional ? buckets / 2 : buckets;
  const start = bidirectional && distance > 0 ? size : 0;
  const past = bidirectional ? Math.abs(distance) : Math.max(-distance, 0);
  const exact = Math.floor(size / 2);
  if (past < exact) return start + past;
  const log = Math.fround(Math.log(Math.fround(past / exact)));
  const ratio = Math.fround(log / Math.fround(Math.log(maxDistance / exact)));
  const grown = Math.trunc(Math.fround(ratio * (size - exact)));
  return start + Math.min(exact + grown, size - 1);
}
