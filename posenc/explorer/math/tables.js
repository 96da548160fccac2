// Encodings that have no JavaScript of their own, read out of the tables that Python wrote.
import { UserError } from "#core/errors.js";
import members from "#data/members.js";
import { tabulated } from "#math/absolutes.js";
import { placed } from "#math/rotations.js";

const numbers = (packed) =>
  new Float64Array(Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0)).buffer);

/** What the catalogue says of each; width is the only size of tokens that an encoding fits. */
export const entries = Object.fromEntries(
  Object.entries(members).map(([name, { kind, family, exact, merge, columns, dim, angles, ...told }]) => [
    name,
    {
      kind, family, exact, amplitude: told.trained ? () => 0.5 : undefined,
      label: { en: told.label, zh: told.label },
      construction: told.python,
      width: columns ? (merge === "concat" ? undefined : columns) : exact && !angles ? undefined : dim,
      settings: () => (columns ? { dim: columns, merge } : {}),
    },
  ]),
);

/** What a table says of its encoding; NaN beyond `reach` positions, or distances. */
export function read(name) {
  const { reach, columns, vectors, causal, heads, dim, angles, added, ...told } = members[name];
  if (vectors) return tabulated(numbers(vectors), columns, reach);
  const width = entries[name].width;
  const encoding = { heads, reach, causalOnly: causal, ...(width ? { width } : {}) };
  if (angles) {
    const [table, { pairs, turningHeads }] = [numbers(angles), told];
    const row = (position, head) => ((turningHeads > 1 ? head * reach : 0) + position) * pairs;
    const at = (position, head = 0) =>
      position >= 0 && position < reach
        ? table.subarray(row(position, head), row(position, head) + pairs)
        : new Float64Array(pairs).fill(NaN);
    Object.assign(encoding, placed(at, told.layout, told.gain), { turningHeads });
  }
  if (added) {
    const [table, side] = [numbers(added), reach - 1];
    encoding.bias = (distance, head) =>
      Math.abs(distance) > side ? NaN : table[head * (2 * side + 1) + side + distance];
  }
  return encoding;
}

/** Refuses what a table cannot tell: it may be of equal tokens only. */
export function needExact(name, lang) {
  if (entries[name]?.exact === false) throw new UserError("only_alike", { name: entries[name].label[lang] });
}

export const hasTable = (name) => Object.hasOwn(members, name);
