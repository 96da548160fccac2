/** An arrow in a picture, dashed and thin for what was before. */
export function arrow(ctx, from, to, color, dashed) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const size = Math.hypot(dx, dy);
  const head = Math.min(9, size);
  const way = Math.atan2(dy, dx);
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineWidth = dashed ? 1.25 : 2.5;
  ctx.setLineDash(dashed ? [4, 4] : []);
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
  ctx.setLineDash([]);
  if (size === 0) return;
  ctx.beginPath();
  ctx.moveTo(...to);
  for (const turn of [-0.4, 0.4]) {
    ctx.lineTo(to[0] - head * Math.cos(way + turn), to[1] - head * Math.sin(way + turn));
  }
  ctx.closePath();
  ctx.fill();
}
