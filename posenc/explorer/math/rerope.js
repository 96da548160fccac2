/** The distance that counts at `back` tokens: clipped at the window, or 1/leak of it beyond. */
export function counted(back, window, leak = null) {
  if (back < window) return back;
  return leak === null ? window : window + (back - window) / leak;
}
