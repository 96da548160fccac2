// What training showed and what it never did, in every picture alike: whole and in blue, or hollow,
// dashed and in red.
import { UNSEEN } from "#core/dial.js";
import { line } from "#core/marks.js";

/** Bars of a row of weights on a foot that says of each key whether it is new. */
export function strip(ctx, { left, right, foot, high }, { weights, fresh }, colors) {
  const most = weights.reduce((one, other) => Math.max(one, other), 0);
  const wide = (right - left) / weights.length;
  for (let from = 0, to = 0; from < weights.length; from = to) {
    const look = colors[fresh[from] ? "unseen" : "a"];
    const outline = [];
    for (; to < weights.length && fresh[to] === fresh[from]; to += 1) {
      const y = foot - (high * weights[to]) / most;
      outline.push([left + to * wide, y], [left + (to + 1) * wide, y]);
    }
    ctx.fillStyle = look;
    ctx.globalAlpha = fresh[from] ? 0.25 : 1;
    ctx.beginPath();
    ctx.moveTo(left + from * wide, foot);
    for (const [x, y] of outline) ctx.lineTo(x, y);
    ctx.lineTo(left + to * wide, foot);
    ctx.fill();
    ctx.globalAlpha = 1;
    if (fresh[from]) line(ctx, outline, look, 1);
    line(ctx, [[left + from * wide, foot], [left + to * wide, foot]], look, 2, fresh[from] ? UNSEEN : []);
  }
}

/** What whole and dashed lines mean, and where `wedge` is given, a wedge; from x on, on the line y. */
export function key(ctx, [x, y], { seen, unseen, wedge }, colors) {
  ctx.font = "12px system-ui, sans-serif";
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  let at = x;
  const named = (words) => {
    ctx.fillStyle = colors.muted;
    ctx.fillText(words, at + 21, y);
    at += 21 + ctx.measureText(words).width + 14;
  };
  line(ctx, [[at, y], [at + 16, y]], colors.a, 5);
  named(seen);
  line(ctx, [[at, y], [at + 16, y]], colors.unseen, 5, UNSEEN);
  named(unseen);
  if (!wedge) return;
  ctx.fillStyle = colors.muted;
  ctx.globalAlpha = 0.4;
  ctx.beginPath();
  ctx.moveTo(at + 3, y + 6);
  ctx.arc(at + 3, y + 6, 13, -Math.PI / 2, -Math.PI / 8);
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = 1;
  named(wedge);
}
