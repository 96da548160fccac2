const TURN = 2 * Math.PI;
const TOP = -TURN / 4;

/**
 * A pair of dimensions as a dial, from the top on: a hand at the angle that the farthest tokens of a
 * text reach, a wedge for the step from one token to the next, and where `told`, the angles of
 * training as an arc in colour a, and those that are new in colour b; see `reach`.
 */
export function dial(ctx, [x, y], radius, { step, seen, reached, fresh }, told, colors) {
  const arc = (from, to, color, width) => {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.arc(x, y, radius, TOP + from, TOP + to);
    ctx.stroke();
  };
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  ctx.fillStyle = colors.muted;
  ctx.globalAlpha = 0.4;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.arc(x, y, radius, TOP, TOP + Math.min(step, TURN));
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = 1;
  arc(0, TURN, colors.grid, 1.5);
  const thick = Math.min(Math.max(4, radius / 5), 7);
  if (told) arc(0, Math.min(seen, TURN), colors.a, thick);
  if (told && fresh) arc(seen, Math.min(reached, TURN), colors.b, thick);
  const hand = TOP + (reached % TURN);
  const long = radius - thick / 2 - 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + long * Math.cos(hand), y + long * Math.sin(hand));
  ctx.stroke();
}
