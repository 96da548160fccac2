// The frames of tools/moving_picture.py, which says on standard input what to open, move and take.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const tests = new URL("../tests/explorer/package.json", import.meta.url);
const { chromium } = createRequire(tests)("playwright-core");
const asked = JSON.parse(readFileSync(0, "utf8"));
const { address, browser: executablePath, clicked, elements, frames, folder } = asked;

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const tab = await browser.newPage({
  viewport: { width: asked.width, height: 2400 },
  deviceScaleFactor: asked.scale,
  offline: true,
});
tab.setDefaultTimeout(asked.patience);
await tab.goto(address);
for (const each of clicked) await tab.locator(each).click();
for (const each of elements) await tab.locator(each).first().waitFor();

/** The box around everything that a selector finds. */
async function around(selector) {
  const boxes = [];
  for (const each of await tab.locator(selector).all()) boxes.push(await each.boundingBox());
  if (!boxes.length) throw new Error(`${selector} finds nothing in the page`);
  const x = Math.min(...boxes.map((box) => box.x));
  const y = Math.min(...boxes.map((box) => box.y));
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  return { x, y, width: right - x, height: bottom - y };
}

// Boxes of the first frame are those of all: what is written below may be longer by a sign.
let clips;
for (const [frame, values] of frames.entries()) {
  for (const [control, value] of Object.entries(values)) {
    await tab.locator(`[id="${control}"]`).fill(String(value));
  }
  await tab.evaluate(() => document.activeElement.blur());
  await tab.evaluate(
    () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
  );
  clips ??= await Promise.all(elements.map(around));
  for (const [part, clip] of clips.entries()) {
    await tab.screenshot({ path: `${folder}/${frame}-${part}.png`, clip });
  }
}
await browser.close();
