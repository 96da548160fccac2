import { label } from "#core/label.js";
import { line } from "#core/marks.js";

/** What the reader drew, dashed in a colour that no series has, and named at its end. */
export function guessed(ctx, points, colors, say) {
  line(ctx, points, colors.b, 2.5, [7, 5]);
  const [x, y] = points.at(-1);
  label(ctx, say("yours"), [x, y < 40 ? y + 14 : y - 12], colors.b, { weight: "600", align: "right" });
}
