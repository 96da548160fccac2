import { catalogue } from "#math/catalogue.js";

const powers = (low, high) => {
  const found = [];
  for (let power = low; power <= high; power *= 2) found.push(power, power * 1.5);
  return found.filter((value) => Number.isInteger(value) && value <= high);
};
const DECADES = [0, 1, 2, 3, 4, 5, 6].flatMap((power) =>
  [1, 2, 5].map((n) => Number(`${n}e${power}`)),
);

/** The settings that all panels share, declared as the panels' own controls are. */
export const GLOBALS = [
  { id: "a", kind: "select", options: Object.keys(catalogue), value: "rotary" },
  { id: "b", kind: "select", options: Object.keys(catalogue), value: "alibi" },
  {
    id: "d", kind: "range", min: 2, max: 256, step: 2, value: 64,
    stops: [2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256],
  },
  {
    id: "base", kind: "range", min: 2, max: 1e7, step: 0.01, value: 10_000,
    stops: [...DECADES, 1e7],
  },
  { id: "length", kind: "range", min: 2, max: 16_384, value: 128, stops: powers(2, 16_384) },
  {
    id: "heads",
    kind: "range",
    min: 1,
    max: 64,
    value: 8,
    stops: [1, 2, 4, 6, 8, 12, 16, 24, 32, 64],
  },
  { id: "trained", kind: "range", min: 2, max: 1_048_576, value: 64, stops: powers(2, 1_048_576) },
];
