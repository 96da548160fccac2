// Formulas of one variable that a reader types: parsed here and never handed to eval.
//
//   sum     = product (("+" | "-") product)*
//   product = signed (("*" | "/" | "%") signed)*
//   signed  = ("-" | "+") signed | power
//   power   = atom (("^" | "**") signed)?
//   atom    = number | "t" | "pi" | "e" | name "(" sum ("," sum)* ")" | "(" sum ")"

import { UserError } from "#core/errors.js";
import { waves } from "#math/waveform.js";

const LONGEST = 200;
const DEEPEST = 40;
const CONSTANTS = { pi: Math.PI, e: Math.E };

// As Python and torch have it: the sign of the divisor.
const remainder = (a, b) => {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
};

const one = (run, torch) => ({ least: 1, most: 1, run, torch });
const method = (run, name) => one(run, (x) => `${group(x)}.${name}()`);

// run is what JavaScript computes; torch, of the arguments' own text, what the exported class does.
const FUNCTIONS = {
  sin: method(Math.sin, "sin"),
  cos: method(Math.cos, "cos"),
  tan: method(Math.tan, "tan"),
  tanh: method(Math.tanh, "tanh"),
  exp: method(Math.exp, "exp"),
  log: method(Math.log, "log"),
  sqrt: method(Math.sqrt, "sqrt"),
  abs: method(Math.abs, "abs"),
  sign: method(Math.sign, "sign"),
  floor: method(Math.floor, "floor"),
  ceil: method(Math.ceil, "ceil"),
  frac: one((x) => remainder(x, 1), (x) => `(${group(x)} % 1)`),
  square: one(waves.square, (x) => `square(${x})`),
  triangle: one(waves.triangle, (x) => `triangle(${x})`),
  sawtooth: one(waves.sawtooth, (x) => `sawtooth(${x})`),
  min: { least: 2, most: 8, run: Math.min },
  max: { least: 2, most: 8, run: Math.max },
};

export const FUNCTION_NAMES = Object.keys(FUNCTIONS);

const OPERATORS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "%": remainder,
  "**": (a, b) => a ** b,
};

function group(text) {
  return /^[\w.]+$/.test(text) || (text.startsWith("(") && closesAtEnd(text)) ? text : `(${text})`;
}

function closesAtEnd(text) {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    depth += text[i] === "(" ? 1 : text[i] === ")" ? -1 : 0;
    if (depth === 0) return i === text.length - 1;
  }
  return false;
}

function tokens(text) {
  const pattern = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/%^(),]))/y;
  const found = [];
  let at = 0;
  while (text.slice(at).trim()) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (!match) {
      const skipped = at + text.slice(at).search(/\S/);
      throw new UserError("unexpected", { found: text[skipped], at: skipped + 1 });
    }
    const [whole, number, name, sign] = match;
    const start = at + whole.length - (number ?? name ?? sign).length;
    if (number !== undefined) found.push({ kind: "number", value: Number(number), text: number, at: start });
    else if (name !== undefined) found.push({ kind: "name", text: name.toLowerCase(), at: start });
    else found.push({ kind: "sign", text: sign === "^" ? "**" : sign, at: start });
    at += whole.length;
  }
  return found;
}

class Parser {
  constructor(found) {
    this.found = found;
    this.next = 0;
    this.depth = 0;
  }

  peek(...signs) {
    const token = this.found[this.next];
    return token?.kind === "sign" && signs.includes(token.text) ? token.text : undefined;
  }

  take() {
    const token = this.found[this.next++];
    if (!token) throw new UserError("ends_early", {});
    return token;
  }

  expect(sign) {
    const token = this.take();
    if (token.kind !== "sign" || token.text !== sign) throw this.unexpected(token);
  }

  unexpected(token) {
    return new UserError("unexpected", { found: token.text, at: token.at + 1 });
  }

  deeper(parse) {
    if (++this.depth > DEEPEST) throw new UserError("too_deep", { most: DEEPEST });
    const node = parse();
    this.depth--;
    return node;
  }

  chain(signs, operand) {
    let left = operand();
    for (let sign; (sign = this.peek(...signs)); ) {
      this.next++;
      left = binary(sign, left, operand());
    }
    return left;
  }

  sum() {
    return this.deeper(() => this.chain(["+", "-"], () => this.product()));
  }

  product() {
    return this.chain(["*", "/", "%"], () => this.signed());
  }

  signed() {
    const sign = this.peek("-", "+");
    if (!sign) return this.power();
    this.next++;
    const node = this.deeper(() => this.signed());
    return sign === "+" ? node : binary("*", constant(-1), node);
  }

  power() {
    const base = this.atom();
    if (!this.peek("**")) return base;
    this.next++;
    return binary("**", base, this.deeper(() => this.signed()));
  }

  atom() {
    const token = this.take();
    if (token.kind === "number") {
      if (!Number.isFinite(token.value)) throw new UserError("number_too_large", { found: token.text });
      return constant(token.value);
    }
    if (token.kind === "sign") {
      if (token.text !== "(") throw this.unexpected(token);
      const inner = this.sum();
      this.expect(")");
      return inner;
    }
    if (token.text === "t") return { run: (t) => t, torch: "turns" };
    if (Object.hasOwn(CONSTANTS, token.text)) return constant(CONSTANTS[token.text]);
    if (!Object.hasOwn(FUNCTIONS, token.text)) {
      throw new UserError("unknown_name", { name: token.text, known: FUNCTION_NAMES.join(", ") });
    }
    return this.call(token.text);
  }

  call(name) {
    this.expect("(");
    const given = [this.sum()];
    while (this.peek(",")) {
      this.next++;
      given.push(this.sum());
    }
    this.expect(")");
    const { least, most } = FUNCTIONS[name];
    if (given.length < least || given.length > most) {
      const needed = least === most ? `${least}` : `${least}-${most}`;
      throw new UserError("arguments", { name, needed, given: given.length });
    }
    return called(name, given);
  }
}

function constant(value) {
  if (!Number.isFinite(value)) throw new UserError("not_finite", {});
  return { value, run: () => value, torch: String(value) };
}
const isConstant = (node) => node.value !== undefined;

function binary(sign, left, right) {
  const run = OPERATORS[sign];
  if (isConstant(left) && isConstant(right)) return constant(run(left.value, right.value));
  const [a, b] = [left.run, right.run];
  return { run: (t) => run(a(t), b(t)), torch: `${group(left.torch)} ${sign} ${group(right.torch)}` };
}

function called(name, given) {
  const { run, torch } = FUNCTIONS[name];
  if (given.every(isConstant)) return constant(run(...given.map((node) => node.value)));
  if (torch) {
    const [inner] = given;
    return { run: (t) => run(inner.run(t)), torch: torch(inner.torch) };
  }
  // torch compares two tensors; a number among the arguments is a clamp.
  return given.reduce((a, b) => {
    const together = { run: (t) => run(a.run(t), b.run(t)) };
    if (isConstant(a) && isConstant(b)) return constant(run(a.value, b.value));
    const [tensor, other] = isConstant(a) ? [b, a] : [a, b];
    const clamp = `${group(tensor.torch)}.clamp(${name === "min" ? "max" : "min"}=${other.torch})`;
    together.torch = isConstant(other) ? clamp : `${group(tensor.torch)}.${name}imum(${other.torch})`;
    return together;
  });
}

// A formula of t, as {run: number -> number, torch: the same as Python text of `turns`, helpers}.
export function parse(text) {
  if (text.length > LONGEST) throw new UserError("too_long", { most: LONGEST });
  const found = tokens(text);
  if (!found.length) throw new UserError("empty_formula", {});
  const parser = new Parser(found);
  const node = parser.sum();
  if (parser.next < found.length) throw parser.unexpected(found[parser.next]);
  if (isConstant(node)) throw new UserError("no_variable", {});
  const helpers = ["square", "triangle", "sawtooth"].filter((name) => node.torch.includes(`${name}(`));
  return { run: node.run, torch: node.torch, helpers };
}
