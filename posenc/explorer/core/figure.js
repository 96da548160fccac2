import { element } from "#core/dom.js";

/** The frame of a drawing: caption, the picture itself (focusable, with a text for it), a line to read. */
export function figure(kind) {
  const caption = element("figcaption");
  const plot = element("div", { class: "plot", tabindex: "0", role: "img" });
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const frame = element("figure", { class: `drawing ${kind}` }, caption, plot, readout);
  return {
    frame,
    plot,
    readout,
    name(title, label) {
      if (caption.textContent !== (title ?? "")) caption.textContent = title ?? "";
      caption.hidden = !title;
      if (plot.getAttribute("aria-label") !== label) plot.setAttribute("aria-label", label);
    },
    place(half, width) {
      frame.classList.toggle("half", Boolean(half));
      frame.style.width = `${width}px`;
    },
  };
}
