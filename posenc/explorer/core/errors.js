/** What a user gave and cannot be used: `key` names a text of the panel, `values` fill its {names}. */
export class UserError extends Error {
  constructor(key, values = {}) {
    super(`${key} ${JSON.stringify(values)}`);
    this.name = "UserError";
    this.key = key;
    this.values = values;
  }
}
