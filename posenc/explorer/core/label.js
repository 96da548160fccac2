/** A line of text in a picture, about its place unless `align` and `base` say otherwise. */
export function label(ctx, text, [x, y], color, style = {}) {
  const { size = 13, weight = "400", align = "center", base = "middle" } = style;
  ctx.font = `${weight} ${size}px system-ui, sans-serif`;
  ctx.textAlign = align;
  ctx.textBaseline = base;
  ctx.fillStyle = color;
  ctx.fillText(text, x, y);
}
