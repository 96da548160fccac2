import { clamped, limits } from "#core/controls.js";
import { element, sizeCanvas } from "#core/dom.js";
import { figure } from "#core/figure.js";

/**
 * A drawing that the panel paints itself; see `stage.paint`.
 *
 * What can be taken by hand: spec.grab(x, y, width), in CSS pixels of the drawing, is null where
 * nothing can, else a function of (x, y) to changes of controls, { m: 5 }. spec.steps = { x, y }
 * names the controls that arrow keys change; spec.drag those that follow the pointer anywhere.
 */
export function paint(page) {
  const shell = figure("paint");
  const canvas = element("canvas");
  shell.plot.append(canvas);
  let spec = null;
  let draw = null;
  let held = null;
  let taken = null;
  let wide = 1;

  const place = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  };
  const grab = (at) => spec.grab?.(...place(at), wide) ?? null;
  const apply = (changes) => {
    for (const [id, value] of Object.entries(changes)) page.change(id, within(id, value));
  };
  function within(id, value) {
    const { control, s } = page.own(id);
    return clamped(control, value, s);
  }

  shell.plot.addEventListener("pointerdown", (event) => {
    taken = grab(event);
    if (taken || spec.drag) shell.plot.setPointerCapture(event.pointerId);
    if (taken) return apply(taken(...place(event)));
    if (!spec.drag) return;
    const value = (id) => (id ? page.own(id).value : 0);
    held = { x: event.clientX, y: event.clientY, from: [value(spec.drag.x), value(spec.drag.y)] };
  });
  shell.plot.addEventListener("pointermove", (event) => {
    if (taken) return apply(taken(...place(event)));
    if (spec.grab) shell.plot.classList.toggle("drags", grab(event) !== null);
    if (!held) return;
    move(spec.drag.x, held.from[0], (event.clientX - held.x) / wide);
    move(spec.drag.y, held.from[1], (event.clientY - held.y) / wide);
  });
  for (const end of ["pointerup", "pointercancel"])
    shell.plot.addEventListener(end, () => (held = taken = null));
  // A finger that takes something does not scroll the page with it.
  shell.plot.addEventListener(
    "touchstart",
    (event) => grab(event.touches[0]) && event.preventDefault(),
    { passive: false },
  );
  shell.plot.addEventListener("keydown", (event) => {
    const { x, y, down } = spec.steps ?? {};
    const [id, by] =
      {
        ArrowLeft: [x, -1], ArrowRight: [x, 1],
        ArrowDown: down ? [down, 1] : [y, -1], ArrowUp: down ? [down, -1] : [y, 1],
      }[event.key] ?? [];
    if (!id) return;
    event.preventDefault();
    const { control, value, s } = page.own(id);
    const next = within(id, value + by * limits(control, s).step);
    // At the end of this picture the position that is lit elsewhere may be farther out.
    if (next !== value) page.change(id, next);
  });

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
      if (!spec.grab) shell.plot.classList.toggle("drags", Boolean(spec.drag));
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
