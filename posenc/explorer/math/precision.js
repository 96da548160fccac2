// Rounding to the formats of accelerators, as torch does it: float64 to float32, then further.

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The nearest float32. */
export function float32(x) {
  return Math.fround(x);
}

/** The nearest bfloat16: 8 bits of exponent, 7 of fraction. */
export function bfloat16(x) {
  float[0] = x;
  if (Number.isNaN(float[0])) return NaN;
  // Of the 16 bits that go, half and more round up; half alone to the even one of both.
  bits[0] = (bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)) & 0xffff0000;
  return float[0];
}

/** The nearest float16: 5 bits of exponent, 10 of fraction; Infinity from 65520 on. */
export function float16(x) {
  float[0] = x;
  const size = Math.abs(float[0]);
  if (!(size < 65520)) return float[0] * Infinity;
  const exponent = Math.max(((bits[0] >>> 23) & 255) - 127, -14);
  const step = 2 ** (exponent - 10);
  // Adding 2**52 leaves no bit for a fraction, and rounds half to even.
  const rounded = (size / step + 2 ** 52 - 2 ** 52) * step;
  return bits[0] >>> 31 ? -rounded : rounded;
}

export const dtypes = { float32, bfloat16, float16 };
