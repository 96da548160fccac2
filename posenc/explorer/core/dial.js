const TURN = 2 * Math.PI;
const TOP = -TURN / 4;

/** A dash for what training never showed, beside whole lines for what it did. */
export const UNSEEN = [3, 2.5];

/**
 * A pair of dimensions as a dial, from the top on: a hand at the angle that the farthest tokens of a
 * text reach, a wedge for the step from one token to the next, in outline where training's was another,
 * and the angles of training as an arc, whole and in colour a, those that are new in dashes; see `reach`.
 */
export function dial(ctx, [x, y], radius, { step, own = step, seen, reached, fresh }, colors) {
  const arc = (from, to, color, width) => {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.arc(x, y, radius, TOP + from, TOP + to);
    ctx.stroke();
  };
  const wedge = (angle) => {
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.arc(x, y, radius, TOP, TOP + Math.min(angle, TURN));
    ctx.closePath();
  };
  ctx.setLineDash([]);
  ctx.lineCap = "butt";
  ctx.fillStyle = ctx.strokeStyle = colors.muted;
  ctx.globalAlpha = 0.4;
  wedge(step);
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.lineWidth = 1;
  if ((own - step) * radius > 2) {
    wedge(own);
    ctx.stroke();
  }
  arc(0, TURN, colors.grid, 1.5);
  const thick = Math.min(Math.max(4, radius / 5), 7);
  arc(0, Math.min(seen, TURN), colors.a, thick);
  if (fresh) {
    ctx.setLineDash(UNSEEN);
    arc(seen, Math.min(reached, TURN), colors.unseen, thick);
    ctx.setLineDash([]);
  }
  const hand = TOP + (reached % TURN);
  const long = radius - thick / 2 - 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + long * Math.cos(hand), y + long * Math.sin(hand));
  ctx.stroke();
}
