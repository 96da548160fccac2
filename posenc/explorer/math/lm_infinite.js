/** The distance that counts at `back` tokens: never more than the window. */
export function counted(back, window) {
  return Math.min(back, window);
}
