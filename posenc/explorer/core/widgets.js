import { limits, read, span, stops } from "#core/controls.js";
import { element } from "#core/dom.js";
import { sketchpad } from "#core/sketchpad.js";

/**
 * The input elements of one control: `element`, and `show(value, s)` that brings them up to date.
 *
 * `words` has its label, hint, option(name), and say of the page.
 * `to.change(value)` takes what the user set, `to.refuse(name, given, allowed)` what cannot be used;
 * `to.player` is the page's, for what plays.
 */
export function widget(control, id, words, to) {
  return KINDS[control.kind](control, id, words, to);
}

const KINDS = { range, select, toggle, text, button, sketch };

function range(control, id, { label, say }, to) {
  let settings = {};
  let value = control.value;
  let places = null;
  let typing = false;
  const slider = element("input", {
    type: "range", id, step: "any",
    oninput: () => set(places ? places[Number(slider.value)] : Number(slider.value)),
  });
  const number = element("input", {
    type: "text", inputmode: "decimal", id: `${id}.number`, autocomplete: "off", size: 6,
    "aria-label": say("number_of", { name: label }),
    oninput: () => (typing = true),
    onchange: () => {
      typing = false;
      const found = read(control, number.value, settings);
      const { min, max } = limits(control, settings);
      if (found === undefined || found < min || found > max) {
        to.refuse(label, number.value, span(control, settings));
        number.value = String(value);
      } else set(found);
    },
  });
  const advance = () => {
    const { min, max, step } = limits(control, settings);
    to.change(value + step > max ? min : value + step);
  };
  function set(found) {
    if (control.play) to.player.stop();
    to.change(found);
  }
  const player = element("button", {
    type: "button",
    id: `${id}.play`,
    onclick: () => to.player.toggle(advance),
  });
  const row = element("span", { class: "row" }, slider, number, control.play ? player : null);
  return {
    element: element("div", { class: "field range" }, element("label", { for: id }, label), row),
    show(now, s) {
      settings = s;
      value = now;
      places = stops(control, s);
      const { min, max, step } = limits(control, s);
      const [low, high, by] = places ? [0, places.length - 1, 1] : [min, max, step];
      // The order matters: a slider clamps its value to the limits that it has at that moment.
      setAll(slider, { min: low, max: Math.max(high, low), step: by });
      slider.value = String(places ? nearest(places, now) : now);
      slider.setAttribute("aria-valuetext", String(now));
      if (!typing) number.value = String(now);
      if (control.play) player.textContent = say(to.player.on ? "stop" : "play");
    },
  };
}

function select(control, id, { label, option }, to) {
  const chooser = element("select", { id, onchange: () => to.change(chooser.value) });
  let listed = "";
  return {
    element: element("div", { class: "field" }, element("label", { for: id }, label), chooser),
    show(value, s) {
      const { options } = limits(control, s);
      if (options.join() !== listed) {
        listed = options.join();
        const name = (each) => (/^[\d.]+$/.test(each) ? each : option(each));
        chooser.replaceChildren(
          ...options.map((each) => element("option", { value: each }, name(each))),
        );
      }
      chooser.value = value;
    },
  };
}

function toggle(control, id, { label }, to) {
  const box = element("input", { type: "checkbox", id, onchange: () => to.change(box.checked) });
  return {
    element: element("div", { class: "field toggle" }, box, element("label", { for: id }, label)),
    show(value) {
      box.checked = value;
    },
  };
}

function text(control, id, { label, hint }, to) {
  const area = control.lines > 1;
  const options = {
    id, spellcheck: "false", autocomplete: "off",
    placeholder: hint,
    oninput: () => {
      const found = read(control, input.value, {});
      if (found === undefined) to.refuse(label, `${input.value.length}`, span(control, {}));
      else to.change(found);
    },
  };
  const input = area
    ? element("textarea", { ...options, rows: control.lines })
    : element("input", { ...options, type: "text" });
  return {
    element: element("div", { class: "field text" }, element("label", { for: id }, label), input),
    show(value) {
      // What is being typed stays as it is.
      if (document.activeElement !== input || input.value === "") input.value = value;
    },
  };
}

function button(control, id, { label }, to) {
  let count = 0;
  const press = () => to.change((count + 1) % 1_000_000);
  return {
    element: element(
      "div",
      { class: "field" },
      element("button", { type: "button", id, onclick: press }, label),
    ),
    show(value) {
      count = value;
    },
  };
}

function sketch(control, id, { label, say }, to) {
  const pad = sketchpad(control, id, label, say, to.change);
  return {
    element: element("div", { class: "field sketch" }, element("span", {}, label), pad.element),
    show: pad.show,
  };
}

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
}

function nearest(values, value) {
  let best = 0;
  for (let i = 1; i < values.length; i += 1) {
    if (Math.abs(values[i] - value) < Math.abs(values[best] - value)) best = i;
  }
  return best;
}
