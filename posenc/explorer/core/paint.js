import { limits } from "#core/controls.js";
import { element, sizeCanvas } from "#core/dom.js";
import { figure } from "#core/figure.js";

/** A drawing that the panel paints itself; see `stage.paint`. */
export function paint(page) {
  const shell = figure("paint");
  const canvas = element("canvas");
  shell.plot.append(canvas);
  let spec = null;
  let draw = null;
  let held = null;
  let wide = 1;

  shell.plot.addEventListener("pointerdown", (event) => {
    if (!spec.drag) return;
    shell.plot.setPointerCapture(event.pointerId);
    const value = (id) => (id ? page.own(id).value : 0);
    held = { x: event.clientX, y: event.clientY, from: [value(spec.drag.x), value(spec.drag.y)] };
  });
  shell.plot.addEventListener("pointermove", (event) => {
    if (!held) return;
    move(spec.drag.x, held.from[0], (event.clientX - held.x) / wide);
    move(spec.drag.y, held.from[1], (event.clientY - held.y) / wide);
  });
  for (const end of ["pointerup", "pointercancel"])
    shell.plot.addEventListener(end, () => (held = null));

  /** Across the whole drawing is once through the control's range. */
  function move(id, from, share) {
    if (!id) return;
    const { control, s } = page.own(id);
    const { min, max } = limits(control, s);
    page.change(id, Math.min(Math.max(from + share * (max - min), min), max));
  }
  return {
    element: shell.frame,
    update(next, width, painter) {
      spec = next;
      draw = painter;
      wide = width;
      shell.place(spec.half, width);
      shell.name(spec.title, spec.label ?? spec.title ?? "");
      shell.plot.classList.toggle("drags", Boolean(spec.drag));
      const context = sizeCanvas(canvas, width, spec.height);
      context.save();
      draw(context, width, spec.height, page.colors);
      context.restore();
    },
    draw: (context, width) => draw(context, width, spec.height, page.colors),
    height: () => spec.height,
    title: () => spec.title,
    destroy() {},
  };
}
