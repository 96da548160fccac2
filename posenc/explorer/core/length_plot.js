// The measured losses against the length that is read, as curves with their intervals.
import { guessed } from "#core/guess.js";
import data from "#data/compare.js";
import { NAMES } from "#math/compared.js";
import { LOOKS } from "#panels/beyond.js";

const { trainLength: TRAINED, lengths: LENGTHS } = data;
export const LONGEST = LENGTHS.at(-1);
// Nats per byte: what the axis shows, and what the upper half of a drawn guess stands for.
const [LEAST, MOST] = [1, 4];
export const HALF = 2.5;
const LINE = 14;

export const lossOf = (name, length) => data.encodings[name].loss[length].mean;
export const two = (value) => value.toFixed(2);

// A little of what is before the trained length shows, too.
const share = (length) => 0.06 + (0.94 * Math.log(length / TRAINED)) / Math.log(LONGEST / TRAINED);
export const across = ({ left, right }, length) => left + (right - left) * share(length);
const down = ({ top, bottom }, loss) => bottom - ((bottom - top) * (loss - LEAST)) / (MOST - LEAST);
const inside = ({ top, bottom }, y) => Math.min(Math.max(y, top), bottom);

/** The curves of all encodings in the frame `plot`; before the answer, only where they begin. */
export function lengthPlot(ctx, plot, found, s, colors, say) {
  axes(ctx, plot, s, colors, say);
  if (s.told) curves(ctx, plot, colors);
  else unknown(ctx, plot, colors);
  if (Array.isArray(s.guess)) guessed(ctx, drawn(plot, s.guess), colors, say);
  names(ctx, plot, found, s, colors, say);
  if (s.told) lit(ctx, plot, s.read, colors, say);
}

function axes(ctx, plot, { told }, colors, say) {
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (let loss = LEAST; loss <= MOST; loss += 1) {
    const y = down(plot, loss);
    ctx.beginPath();
    ctx.moveTo(plot.left, y);
    ctx.lineTo(plot.right, y);
    ctx.stroke();
    ctx.fillText(String(loss), plot.left - 7, y);
  }
  ctx.textBaseline = "top";
  ctx.textAlign = "center";
  const trained = say("trained_to", { length: TRAINED });
  // In a narrow window it would run into the next number.
  const fits = ctx.measureText(trained).width / 2 + 16 < across(plot, 2 * TRAINED) - across(plot, TRAINED);
  for (const length of LENGTHS) {
    ctx.fillText(length === TRAINED && fits ? trained : String(length), across(plot, length), plot.bottom + 9);
  }
  ctx.textAlign = "left";
  ctx.fillText(say("bytes"), plot.right + 16, plot.bottom + 9);
  ctx.fillText(say(told ? "loss_shaded" : "loss"), 0, 0);
}

function curves(ctx, plot, colors) {
  for (const name of NAMES) {
    const { color, dash = [] } = LOOKS[name];
    const places = LENGTHS.map((length) => [across(plot, length), data.encodings[name].loss[length]]);
    ctx.strokeStyle = ctx.fillStyle = colors[color];
    ctx.globalAlpha = 0.16;
    ctx.beginPath();
    for (const [x, { low }] of places) ctx.lineTo(x, inside(plot, down(plot, low)));
    for (const [x, { high }] of [...places].reverse()) ctx.lineTo(x, inside(plot, down(plot, high)));
    ctx.closePath();
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.lineWidth = name === "rotary" ? 3.5 : 1.75;
    ctx.setLineDash(dash);
    ctx.beginPath();
    for (const [x, { mean }] of places) ctx.lineTo(x, down(plot, mean));
    ctx.stroke();
    ctx.setLineDash([]);
    for (const [x, { mean }] of places) dot(ctx, x, down(plot, mean), name === "rotary" ? 4.5 : 3);
  }
}

function dot(ctx, x, y, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
}

function unknown(ctx, plot, colors) {
  for (const name of NAMES) {
    ctx.fillStyle = colors[LOOKS[name].color];
    dot(ctx, across(plot, TRAINED), down(plot, lossOf(name, TRAINED)), name === "rotary" ? 4.5 : 3);
  }
  ctx.fillStyle = colors.grid;
  ctx.font = "600 64px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText("?", across(plot, 362), (plot.top + plot.bottom) / 2);
}

/** Where the drawn curve goes: its middle line is RoPE's loss at the trained length. */
function drawn(plot, values) {
  const begun = lossOf("rotary", TRAINED);
  return values.map((value, i) => {
    const length = TRAINED * (LONGEST / TRAINED) ** (i / (values.length - 1));
    return [across(plot, length), inside(plot, down(plot, begun + HALF * value))];
  });
}

/** The name of each curve at its end, with its loss at the length that is read, which heads them. */
function names(ctx, plot, { losses }, { told, read }, colors, say) {
  const end = told ? LONGEST : TRAINED;
  const x = across(plot, end) + 10;
  const sorted = [...NAMES].sort((one, other) => lossOf(other, end) - lossOf(one, end));
  const places = sorted.map((name) => down(plot, lossOf(name, end)));
  // Names keep their order and a line's distance, as near to their curves as that allows.
  for (let i = 1; i < places.length; i += 1) places[i] = Math.max(places[i], places[i - 1] + LINE);
  const over = Math.max(0, places.at(-1) - plot.bottom + 6);
  for (let i = places.length - 1; i >= 0; i -= 1)
    places[i] = Math.min(places[i] - over, (places[i + 1] ?? Infinity) - LINE);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  if (told) {
    ctx.font = "600 12px system-ui, sans-serif";
    ctx.fillStyle = colors.accent;
    ctx.fillText(say("losses_at", { read }), x, Math.min(plot.top, places[0] - LINE));
  }
  sorted.forEach((name, i) => {
    const { value, measured } = told ? losses[name] : { value: lossOf(name, TRAINED), measured: true };
    ctx.font = `${name === "rotary" ? "600 " : ""}12px system-ui, sans-serif`;
    ctx.fillStyle = colors[LOOKS[name].color];
    ctx.fillText(say(name), x, places[i]);
    const beside = x + ctx.measureText(say(name)).width + 5;
    if (told) ctx.fillStyle = colors.accent;
    ctx.fillText(`${measured ? "" : "≈"}${two(value)}`, beside, places[i]);
  });
}

function lit(ctx, plot, read, colors, say) {
  const x = across(plot, read);
  ctx.strokeStyle = ctx.fillStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, plot.top);
  ctx.lineTo(x, plot.bottom);
  ctx.stroke();
  dot(ctx, x, plot.bottom, 9);
  ctx.font = "600 12px system-ui, sans-serif";
  ctx.textBaseline = "top";
  ctx.textAlign = read > 200 ? "right" : "left";
  ctx.fillText(say("read_at", { read }), x + (read > 200 ? -6 : 6), plot.top);
}
