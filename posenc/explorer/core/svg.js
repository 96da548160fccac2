import { escape, Recorder } from "#core/recorder.js";

const FULL = 760;
const HALF = 480;
const MARGIN = 20;
const LINE = 18;

/** Everything on a stage as one SVG file: drawings as shapes, notes and tables as lines of text. */
export function svg(stage, title, address) {
  const { colors } = stage.page;
  const parts = [];
  let top = MARGIN + LINE;
  const text = (line, size = 13, color = colors.muted, weight = 400) => {
    parts.push(
      `<text x="${MARGIN}" y="${top}" font-size="${size}" font-weight="${weight}" fill="${color}">${escape(line)}</text>`,
    );
    top += LINE;
  };
  text(title, 17, colors.ink, 600);
  top += LINE / 2;
  for (const item of stage.items) {
    if (item.lines) {
      for (const line of item.lines().flatMap(wrapped)) text(line);
    } else {
      if (item.title()) text(item.title(), 13, colors.ink, 600);
      const width = item.element.classList.contains("half") ? HALF : FULL;
      const recorder = new Recorder();
      item.draw(recorder, width);
      parts.push(
        `<g transform="translate(${MARGIN} ${top - LINE / 2})">\n${recorder.markup}\n</g>`,
      );
      top += item.height(width) + LINE;
    }
    top += LINE / 2;
  }
  const [width, height] = [FULL + 2 * MARGIN, Math.ceil(top + MARGIN)];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif">`,
    `<title>${escape(title)}</title>`,
    `<desc>posenc ${escape(address)}</desc>`,
    `<rect width="${width}" height="${height}" fill="${colors.paper}"/>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

/** A text in lines that fit; a Chinese sign is as wide as two Latin ones. */
function wrapped(text) {
  const lines = [""];
  let used = 0;
  for (const word of text.match(/[\u2e80-\uffff]|[^\s\u2e80-\uffff]+\s*|\s+/g) ?? []) {
    const wide = /[\u2e80-\uffff]/.test(word) ? 2 : word.length;
    if (used + wide > 110) {
      lines.push("");
      used = 0;
    }
    lines[lines.length - 1] += word;
    used += wide;
  }
  return lines;
}
