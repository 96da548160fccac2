/** A number as people read it: whole numbers in full, others to four digits. */
export function short(value) {
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "-" : value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) {
    return value
      .toExponential(3)
      .replace(/\.?0+e/, "e")
      .replace("e+", "e");
  }
  return String(Number(value.toPrecision(4)));
}

/** Round steps (1, 2 or 5 times a power of ten) between low and high, about `count` of them. */
export function ticks(low, high, count = 6, whole = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  const step = whole ? Math.max(1, factor * power) : factor * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

/** Powers of ten between low and high, thinned where there are many. */
export function logTicks(low, high, count = 6) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / count));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(Number(`1e${power}`));
  return found.length ? found : [low, high];
}

/** Whether all values there are, in all lists, are whole: counts, which have no halves to mark. */
export function areCounts(lists) {
  return lists.every((list) =>
    list.every((value) => !Number.isFinite(value) || Number.isInteger(value)),
  );
}

/** What an axis spans for values from low to high: a little more; from 0 where all are one value. */
export function padded(low, high) {
  if (low === high && low !== 0) return low > 0 ? [0, 1.06 * low] : [1.06 * low, 0];
  const room = (high - low || 1) * 0.06;
  return [low - room, high + room];
}

/** The least and the greatest finite value of all lists; [0, 1] where there is none. */
export function extent(lists) {
  let low = Infinity;
  let high = -Infinity;
  for (const list of lists) {
    for (let i = 0; i < list.length; i += 1) {
      const value = list[i];
      if (value === null || !Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low > high ? [0, 1] : [low, high];
}
