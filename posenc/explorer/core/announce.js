/** Tells the page around this one how high it is: a frame that fits shows all and scrolls nothing. */
export function announce(root) {
  if (window.parent === window) return;
  const tell = () => {
    const height = Math.ceil(root.getBoundingClientRect().height);
    window.parent.postMessage({ posenc: { height } }, "*");
  };
  new ResizeObserver(tell).observe(root);
  // Nothing is drawn in a frame that is out of sight, so that no size is observed there.
  tell();
}
