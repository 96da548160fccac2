import { SMALL } from "#core/axis.js";
import { cells } from "#core/cells.js";
import { short } from "#core/numbers.js";

const [WIDE, HIGH, SHADES] = [90, 10, 45];

/** What the colours of `cells` stand for, from low to high, where `range` is what the whole palette spans. */
export function colorScale(ctx, [left, y], name, [low, high], range, theme, colors) {
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const write = (text, x) => {
    ctx.fillText(text, x, y);
    return x + ctx.measureText(text).width + 6;
  };
  const written = (value) => short(Number(value.toPrecision(2))).replace("-", "−");
  const from = write(`${name} ${written(low)}`, left);
  const values = Array.from({ length: SHADES }, (_, i) => low + ((high - low) * i) / (SHADES - 1));
  cells(ctx, { left: from, top: y - HIGH / 2, width: WIDE, height: HIGH }, { rows: 1, cols: SHADES, values, range }, theme);
  write(written(high), from + WIDE + 6);
}
