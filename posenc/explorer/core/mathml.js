import { escape } from "#core/recorder.js";

const TOKEN = /"[^"]*"|\d+(?:\.\d+)?|[a-z]+|[^\s]/giu;
const NAME = /^\p{L}+$/u;
const BIG = ["∑"];
const BETWEEN = ["mod", "if", "⇔", "⇒", "∧", "∨"];
// Brackets grow with what they hold only in fonts that are made for formulas; in others too far.
const BRACKETS = "()[]{}⌊⌋⌈⌉|√";

/**
 * MathML of a formula in one line: `a_i`, `a^2`, `{a + b}/{c}` for a fraction, `{a}⏟{b}` for a term
 * with its name below it, `#a{...}` for what has colour a in the picture, `"..."` for words, braces to
 * group. Names of several letters go through
 * `word`, which says them in the language of the page.
 */
export function mathml(text, word) {
  const tokens = text.match(TOKEN);
  let at = 0;

  function row() {
    const parts = [];
    let before = null;
    while (at < tokens.length && tokens[at] !== "}") {
      const first = tokens[at];
      if (before !== null) parts.push(gap(before, first));
      before = first;
      parts.push(term());
    }
    return parts.length === 1 ? parts[0] : `<mrow>${parts.join("")}</mrow>`;
  }
  function atom() {
    const token = tokens[at++];
    if (token === "#") return `<mrow class="colour ${tokens[at++]}">${atom()}</mrow>`;
    if (token !== "{") return leaf(token, word);
    const inside = row();
    at += 1;
    return inside;
  }
  function term() {
    const [first, grouped] = [tokens[at], tokens[at] === "{"];
    let base = atom();
    if (grouped && tokens[at] === "/" && tokens[at + 1] === "{") {
      at += 1;
      base = `<mfrac>${base}${atom()}</mfrac>`;
    } else if (tokens[at] === "⏟") {
      at += 1;
      base = `<munder><mrow class="named">${base}</mrow>${atom()}</munder>`;
    }
    return scripted(base, BIG.includes(first) ? ["under", "over"] : ["sub", "sup"]);
  }
  function scripted(base, [low, high]) {
    const found = {};
    while (["_", "^"].includes(tokens[at])) {
      const sign = tokens[at++];
      found[sign] = atom();
    }
    const tag = `m${"_" in found ? low : ""}${"^" in found ? high : ""}`;
    if (tag === "m") return base;
    return `<${tag}>${base}${found._ ?? ""}${found["^"] ?? ""}</${tag}>`;
  }
  return `<math display="block">${row()}</math>`;
}

/** Room beside a name of several letters, which would run into its neighbour. */
function gap(before, after) {
  if ([before, after].some((token) => token.startsWith('"'))) return '<mspace width="0.5em"/>';
  const names = [before, after].filter((token) => token.length > 1 && NAME.test(token));
  const beside = [before, after].every((token) => token === "{" || /^[\p{L}\d]/u.test(token));
  return names.length && beside && !BETWEEN.includes(names[0]) ? '<mspace width="0.2em"/>' : "";
}

function leaf(token, word) {
  if (token.startsWith('"')) return `<mtext>${escape(token.slice(1, -1))}</mtext>`;
  if (/^\d/.test(token)) return `<mn>${token}</mn>`;
  if (BETWEEN.includes(token)) return `<mo lspace="0.35em" rspace="0.35em">${word(token)}</mo>`;
  if (NAME.test(token)) return `<mi>${escape(token.length > 1 ? word(token) : token)}</mi>`;
  const sign = escape(token === "-" ? "−" : token);
  const size = BRACKETS.includes(token) ? ' stretchy="false"' : "";
  const space = token === "|" ? ' lspace="0" rspace="0"' : "";
  return `<mo${size}${space}>${sign}</mo>`;
}
