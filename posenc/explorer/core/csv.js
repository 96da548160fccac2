/** A table as CSV (RFC 4180); the mark at its front lets spreadsheets read Chinese. */
export function csv({ head, rows }) {
  const lines = [head, ...rows].map((row) => row.map(cell).join(","));
  return `\ufeff${lines.join("\r\n")}\r\n`;
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  let text = String(value);
  // A spreadsheet would run a text that begins like a formula.
  if (/^[=+@\t\r-]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
