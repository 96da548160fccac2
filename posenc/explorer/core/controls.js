/** What a control may hold: limits, reading a text into a value, writing it back. No DOM. */

/** More names than these do not fit into a message. */
const MOST_NAMED = 24;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
export const LONGEST_TEXT = 20_000;

const given = (value, s) => (typeof value === "function" ? value(s) : value);

/** min, max and step of a range, or the options of a select, for the settings `s`. */
export function limits(control, s) {
  const min = given(control.min ?? 0, s);
  return {
    min,
    max: Math.max(min, given(control.max ?? 1, s)),
    step: given(control.step ?? 1, s),
    options: given(control.options ?? [], s).map(String),
  };
}

/** `value` as near as the control allows. */
export function clamped(control, value, s) {
  if (control.kind === "range") {
    const { min, max, step } = limits(control, s);
    const whole = min + Math.round((value - min) / step) * step;
    const inside = Math.min(Math.max(whole, min), max);
    // 0.1 + 0.2 should read 0.3.
    return Number(inside.toPrecision(12));
  }
  if (control.kind === "select") {
    const { options } = limits(control, s);
    return options.includes(String(value)) ? String(value) : options[0];
  }
  return value;
}

/** The value that `text` stands for, or undefined where it stands for none. */
export function read(control, text, s) {
  switch (control.kind) {
    case "range":
      return NUMBER.test(text.trim()) ? finite(Number(text)) : undefined;
    case "button":
      return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
    case "select":
      return limits(control, s).options.includes(text) ? text : undefined;
    case "toggle":
      return text === "1" ? true : text === "0" ? false : undefined;
    case "text":
      return text.length <= LONGEST_TEXT ? text : undefined;
    case "sketch":
      return sketch(control, text);
    default:
      throw new Error(`control ${control.id}: no kind ${control.kind}`);
  }
}

/** The text that `read` understands. */
export function write(control, value) {
  if (control.kind === "toggle") return value ? "1" : "0";
  if (control.kind === "sketch") return value.map((each) => Number(each.toFixed(2))).join(",");
  return String(value);
}

/** Where a slider may stop: a list of values, or null where it moves in even steps. */
export function stops(control, s) {
  const { min, max, step } = limits(control, s);
  if (control.stops) return control.stops.filter((each) => each >= min && each <= max);
  if (control.scale !== "log" || !(min > 0) || max <= min) return null;
  const count = Math.min(120, Math.max(2, Math.ceil(Math.log2(max / min) * 12)));
  const values = Array.from({ length: count + 1 }, (_, i) => {
    const value = Number((min * (max / min) ** (i / count)).toPrecision(3));
    return clamped(control, value, s);
  });
  return [...new Set(values)];
}

/** What a range accepts, in words that need no translation: "2 ... 256"; of many options the first. */
export function span(control, s) {
  const { min, max, options } = limits(control, s);
  if (control.kind === "range") return `${min} … ${max}`;
  if (control.kind === "select") {
    return options.length > MOST_NAMED
      ? [...options.slice(0, MOST_NAMED), "…"].join(", ")
      : options.join(", ");
  }
  if (control.kind === "toggle") return "0, 1";
  if (control.kind === "text") return `≤ ${LONGEST_TEXT}`;
  if (control.kind === "sketch") return `${control.points} × (-1 … 1)`;
  return "0, 1, 2, …";
}

function finite(value) {
  return Number.isFinite(value) ? value : undefined;
}

function sketch(control, text) {
  const parts = text.split(",");
  if (parts.length !== control.points || !parts.every((part) => NUMBER.test(part)))
    return undefined;
  const values = parts.map(Number);
  return values.every((value) => Math.abs(value) <= 1) ? values : undefined;
}
