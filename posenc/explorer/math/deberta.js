// He et al. 2021, arXiv:2006.03654, section 3.1; buckets: the authors' code of version 2.

/** The bucket of i - j, computed in float32 as checkpoints were; buckets null: i - j itself. */
export function bucket(back, { span = 512, buckets = null } = {}) {
  if (buckets === null) return back;
  const mid = Math.floor(buckets / 2);
  if (Math.abs(back) <= mid) return back;
  const float = Math.fround;
  const whole = float(Math.log(float((span - 1) / mid)));
  const log = float(Math.log(float(Math.abs(back) / mid)));
  const far = Math.ceil(float(float(log / whole) * (mid - 1)));
  return Math.sign(back) * (far + mid);
}

/** Which row of the table distance k - q reads, of 2 * span or 2 * buckets. */
export function row(distance, { span = 512, buckets = null } = {}) {
  const size = buckets ?? span;
  const back = Math.max(-span, Math.min(span, -distance));
  return Math.max(0, Math.min(2 * size - 1, bucket(back, { span, buckets }) + size));
}
