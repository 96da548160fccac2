/** What a head subtracts: r1 log(1 + r2 |distance|), or r1 |distance| ** r2 for kind "power". */
export function kernel(distance, r1, r2, kind = "log") {
  const away = Math.abs(distance);
  return kind === "log" ? r1 * Math.log1p(r2 * away) : r1 * away ** r2;
}

/** r2 from its unbounded parameter. */
export function positive(raw, kind = "log") {
  return kind === "log" ? Math.exp(raw) : 2 / (1 + Math.exp(-raw));
}
