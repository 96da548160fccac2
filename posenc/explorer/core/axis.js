export const SMALL = "12px system-ui, sans-serif";

/** Numbers along the foot of a painted picture at [value, x], and what they count below them. */
export function foot(ctx, { left, width, y }, marks, label, colors) {
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  for (const [value, x] of marks) {
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x, y + 4);
    ctx.stroke();
    ctx.fillText(String(value), x, y + 5);
  }
  ctx.fillText(label, left + width / 2, y + 20);
}

/** What is counted from top to bottom, written along the left edge. */
export function side(ctx, { top, height }, label, colors) {
  ctx.save();
  ctx.translate(8, top + height / 2);
  ctx.rotate(-Math.PI / 2);
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(label, 0, 0);
  ctx.restore();
}
