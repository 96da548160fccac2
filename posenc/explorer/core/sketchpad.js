import { element, sizeCanvas } from "#core/dom.js";

const WIDTH = 320;
const HEIGHT = 120;
const STEP = 0.05;

/**
 * A curve of `control.points` values in -1 ... 1, drawn by pointer or, point by point, by keys; read aloud
 * in units of which `control.half` reach from the middle to an edge.
 */
export function sketchpad(control, id, label, say, change) {
  let values = control.value;
  let at = 0;
  const canvas = element("canvas", {
    id,
    tabindex: "0",
    role: "application",
    "aria-label": say("sketch_label", { name: label }),
    onpointerdown: (event) => {
      canvas.setPointerCapture(event.pointerId);
      follow(event);
    },
    onpointermove: (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) follow(event);
    },
    onkeydown: (event) => {
      const move = {
        ArrowLeft: [-1, 0],
        ArrowRight: [1, 0],
        ArrowUp: [0, STEP],
        ArrowDown: [0, -STEP],
      }[event.key];
      if (!move) return;
      event.preventDefault();
      at = (at + move[0] + control.points) % control.points;
      if (move[1]) put([[at, values[at] + move[1]]]);
      paint();
      readout.textContent = say("sketch_at", { point: at + 1, value: values[at] * (control.half ?? 1) });
    },
    onfocus: () => paint(),
    onblur: () => paint(),
  });
  const readout = element("span", { class: "readout", "aria-live": "polite" });

  function follow(event) {
    const box = canvas.getBoundingClientRect();
    const to = Math.floor(((event.clientX - box.left) / box.width) * control.points);
    const height = 1 - (2 * (event.clientY - box.top)) / box.height;
    const last = Math.min(Math.max(to, 0), control.points - 1);
    // A fast pointer skips points: those between get the line between.
    const from = event.type === "pointerdown" ? last : at;
    const start = values[from];
    const steps = Math.max(1, Math.abs(last - from));
    const touched = [];
    for (let i = 1; i <= steps; i += 1) {
      const point = Math.round(from + ((last - from) * i) / steps);
      touched.push([point, start + ((height - start) * i) / steps]);
    }
    at = last;
    put(touched);
  }
  function put(touched) {
    values = [...values];
    for (const [point, value] of touched) {
      values[point] = Number(Math.min(Math.max(value, -1), 1).toFixed(2));
    }
    change(values);
  }
  function paint() {
    const context = sizeCanvas(canvas, WIDTH, HEIGHT);
    const style = getComputedStyle(canvas);
    const x = (point) => ((point + 0.5) / control.points) * WIDTH;
    const y = (value) => (HEIGHT * (1 - value * 0.94)) / 2;
    context.strokeStyle = style.getPropertyValue("--grid");
    context.beginPath();
    context.moveTo(0, y(0));
    context.lineTo(WIDTH, y(0));
    context.stroke();
    context.strokeStyle = style.getPropertyValue("--pen");
    context.lineWidth = 2;
    context.beginPath();
    values.forEach((value, point) => context.lineTo(x(point), y(value)));
    context.stroke();
    if (document.activeElement === canvas) {
      context.fillStyle = style.getPropertyValue("--ink");
      context.beginPath();
      context.arc(x(at), y(values[at]), 5, 0, 2 * Math.PI);
      context.fill();
    }
  }
  return {
    element: element("span", { class: "row" }, canvas, readout),
    show(now) {
      values = now;
      paint();
    },
  };
}
