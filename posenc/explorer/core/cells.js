import { ramp } from "#core/palette.js";
import { raster } from "#core/raster.js";

/** A matrix as colours in a box of a painted picture; `spec` has rows, cols, values and range of a heatmap. */
export function cells(ctx, box, spec, theme) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [box.width, box.height].map((size) => Math.round(size * ratio));
  const picture = document.createElement("canvas");
  raster(picture, spec, wide, high, ramp("diverging", theme).pixels);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(picture, box.left, box.top, box.width, box.height);
}

/** A frame around the cell, the row or the column that is lit; a row or column of null is all of them. */
export function frame(ctx, box, { rows, cols }, [row, col], color) {
  const [wide, high] = [box.width / cols, box.height / rows];
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.strokeRect(
    box.left + (col ?? 0) * wide,
    box.top + (row ?? 0) * high,
    col === null ? box.width : Math.max(wide, 3),
    row === null ? box.height : Math.max(high, 3),
  );
}
