/**
 * Stands in for a canvas's 2d context and writes down as SVG what is drawn.
 *
 * It knows what the page's drawings use: paths, rectangles, circles, text, images of canvases, and
 * moving, turning and scaling of what follows.
 */
export class Recorder {
  strokeStyle = "#000";
  fillStyle = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  lineCap = "butt";
  lineJoin = "miter";
  font = "12px sans-serif";
  textAlign = "start";
  textBaseline = "alphabetic";
  #dash = [];
  #matrix = [1, 0, 0, 1, 0, 0];
  #path = "";
  #kept = [];
  #marks = [];

  get markup() {
    return this.#marks.join("\n");
  }

  save() {
    const styles = Object.fromEntries(STYLES.map((name) => [name, this[name]]));
    this.#kept.push({ styles, dash: this.#dash, matrix: [...this.#matrix] });
  }

  restore() {
    const kept = this.#kept.pop();
    if (!kept) return;
    Object.assign(this, kept.styles);
    this.#dash = kept.dash;
    this.#matrix = kept.matrix;
  }

  translate(x, y) {
    this.#by(1, 0, 0, 1, x, y);
  }

  scale(x, y) {
    this.#by(x, 0, 0, y, 0, 0);
  }

  rotate(angle) {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    this.#by(cos, sin, -sin, cos, 0, 0);
  }

  setLineDash(dash) {
    this.#dash = [...dash];
  }

  beginPath() {
    this.#path = "";
  }

  moveTo(x, y) {
    this.#path += `M${this.#at(x, y)}`;
  }

  lineTo(x, y) {
    this.#path += `${this.#path ? "L" : "M"}${this.#at(x, y)}`;
  }

  quadraticCurveTo(cx, cy, x, y) {
    this.#path += `Q${this.#at(cx, cy)} ${this.#at(x, y)}`;
  }

  bezierCurveTo(ax, ay, bx, by, x, y) {
    this.#path += `C${this.#at(ax, ay)} ${this.#at(bx, by)} ${this.#at(x, y)}`;
  }

  closePath() {
    this.#path += "Z";
  }

  rect(x, y, width, height) {
    this.moveTo(x, y);
    this.lineTo(x + width, y);
    this.lineTo(x + width, y + height);
    this.lineTo(x, y + height);
    this.closePath();
  }

  arc(x, y, radius, from, to, back = false) {
    this.ellipse(x, y, radius, radius, 0, from, to, back);
  }

  ellipse(x, y, wide, high, turn, from, to, back = false) {
    // Short lines keep any matrix right; so many to a turn look round, for dots and for dials.
    let sweep = to - from;
    if (!back && sweep < 0) sweep = (sweep % TURN) + TURN;
    if (back && sweep > 0) sweep = (sweep % TURN) - TURN;
    sweep = Math.max(-TURN, Math.min(TURN, sweep));
    const around = Math.min(64, Math.max(12, 2 * Math.max(wide, high)));
    const steps = Math.max(2, Math.ceil((Math.abs(sweep) / TURN) * around));
    const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
    for (let i = 0; i <= steps; i += 1) {
      const angle = from + (sweep * i) / steps;
      const [u, v] = [wide * Math.cos(angle), high * Math.sin(angle)];
      this.lineTo(x + u * cos - v * sin, y + u * sin + v * cos);
    }
  }

  stroke() {
    if (this.#path) this.#mark(`<path d="${this.#path}" fill="none" ${this.#stroking()}/>`);
  }

  fill() {
    if (this.#path) this.#mark(`<path d="${this.#path}" ${this.#filling()}/>`);
  }

  fillRect(x, y, width, height) {
    this.#apart(() => {
      this.rect(x, y, width, height);
      this.fill();
    });
  }

  strokeRect(x, y, width, height) {
    this.#apart(() => {
      this.rect(x, y, width, height);
      this.stroke();
    });
  }

  clearRect() {}

  fillText(text, x, y) {
    const [, size = "12"] = /([\d.]+)px/.exec(this.font) ?? [];
    const drop =
      { top: 0.8, hanging: 0.8, middle: 0.35, bottom: -0.2, ideographic: -0.2 }[
        this.textBaseline
      ] ?? 0;
    const anchor = { center: "middle", right: "end", end: "end" }[this.textAlign] ?? "start";
    const weight = /\b(bold|[5-9]00)\b/.test(this.font) ? ' font-weight="600"' : "";
    const place = `transform="matrix(${this.#matrix.map(round).join(" ")})" x="${round(x)}"`;
    const where = `${place} y="${round(y + drop * Number(size))}"`;
    this.#mark(
      `<text ${where} font-size="${size}"${weight} text-anchor="${anchor}" ${this.#filling()}>${escape(text)}</text>`,
    );
  }

  measureText(text) {
    const [, size = "12"] = /([\d.]+)px/.exec(this.font) ?? [];
    const wide = [...String(text)].reduce((sum, sign) => sum + (sign > "\u2e80" ? 1 : 0.55), 0);
    return { width: wide * Number(size) };
  }

  drawImage(canvas, x, y, width, height) {
    const place = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    const options = 'preserveAspectRatio="none" image-rendering="pixelated"';
    this.#mark(`<image ${place} ${options} href="${canvas.toDataURL("image/png")}"/>`);
  }

  #apart(draw) {
    const before = this.#path;
    this.#path = "";
    draw();
    this.#path = before;
  }

  #by(a, b, c, d, e, f) {
    const [m0, m1, m2, m3, m4, m5] = this.#matrix;
    this.#matrix = [
      m0 * a + m2 * b,
      m1 * a + m3 * b,
      m0 * c + m2 * d,
      m1 * c + m3 * d,
      m0 * e + m2 * f + m4,
      m1 * e + m3 * f + m5,
    ];
  }

  #at(x, y) {
    const [a, b, c, d, e, f] = this.#matrix;
    return `${round(a * x + c * y + e)} ${round(b * x + d * y + f)}`;
  }

  #stroking() {
    const [a, b, c, d] = this.#matrix;
    const width = this.lineWidth * Math.sqrt(Math.abs(a * d - b * c));
    const dash = this.#dash.length ? ` stroke-dasharray="${this.#dash.map(round).join(" ")}"` : "";
    const ends = `stroke-linecap="${this.lineCap}" stroke-linejoin="${this.lineJoin}"`;
    return `stroke="${this.strokeStyle}" stroke-width="${round(width)}" ${ends}${dash}${this.#fading("stroke")}`;
  }

  #filling() {
    return `fill="${this.fillStyle}"${this.#fading("fill")}`;
  }

  #fading(what) {
    return this.globalAlpha < 1 ? ` ${what}-opacity="${round(this.globalAlpha)}"` : "";
  }

  #mark(text) {
    this.#marks.push(text);
  }
}

const TURN = 2 * Math.PI;
const STYLES = [
  "strokeStyle",
  "fillStyle",
  "lineWidth",
  "globalAlpha",
  "lineCap",
  "lineJoin",
  "font",
  "textAlign",
  "textBaseline",
];
const round = (value) => Math.round(value * 100) / 100;

/** Text as it may stand in XML. */
export function escape(text) {
  // XML has no place for control characters, not even escaped ones.
  const clean = String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
  return clean.replace(
    /[&<>"]/g,
    (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign],
  );
}
