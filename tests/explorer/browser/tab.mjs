// A real browser: the page's path is in PAGE, the browser's in CHROMIUM. The address is a file's: there is
// no server and no network.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

import { titleOf } from "../../../posenc/explorer/core/story.js";
import { PANELS } from "../../../posenc/explorer/panels/index.js";
import { STORY } from "../../../posenc/explorer/story/index.js";

const PAGE = pathToFileURL(process.env.PAGE).href;
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

let browser;
/** Closed tabs without options of their own, to be opened again. */
const idle = [];
/** { id, controls, title } of each. */
export const panels = PANELS.map(({ id, controls, text }) => ({
  id,
  controls: controls.map(({ id: control, kind }) => ({ id: control, kind })),
  title: { en: text.en.title, zh: text.zh.title },
}));
/** { id, options, title } of each. */
export const chapters = STORY.map((chapter) => ({
  id: chapter.id,
  options: chapter.predict.options ?? [],
  title: { en: titleOf(chapter, "en"), zh: titleOf(chapter, "zh") },
}));

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
});

after(() => browser?.close());

/**
 * A tab on the page, whose errors and requests are kept in `tab.faults`. One with options of its own is
 * new; another may be one that was closed, since a new one takes longer to start than the page does.
 */
export async function open(hash, { width = 1400, height = 900, ...options } = {}) {
  const plain = Object.keys(options).length === 0;
  const tab = (plain && idle.pop()) || (await fresh(options));
  tab.plain = plain;
  tab.faults = [];
  await tab.setViewportSize({ width, height });
  await tab.goto(PAGE + hash);
  await tab.waitForSelector(".stage", { state: "attached" });
  return tab;
}

async function fresh(options) {
  const context = await browser.newContext({ locale: "en-US", offline: true, ...options });
  const tab = await context.newPage();
  tab.on("pageerror", (error) => tab.faults.push(`error: ${error.message}`));
  tab.on("console", (line) => {
    if (["error", "warning"].includes(line.type())) tab.faults.push(`console: ${line.text()}`);
  });
  tab.on("request", (request) => {
    const url = request.url();
    if (!/^(file|data|blob):/.test(url)) tab.faults.push(`request: ${url.slice(0, 80)}`);
  });
  return tab;
}

/** To another panel, in the same tab. */
export async function turn(tab, hash) {
  await tab.evaluate((to) => (location.hash = to), hash);
  await settled(tab);
}

/** What a page keeps beyond its address would reach whoever opens the tab next. */
export async function close(tab, what = "") {
  const { faults } = tab;
  const kept = await tab.evaluate(async () => {
    const { length: databases } = await indexedDB.databases();
    return [localStorage.length, sessionStorage.length, databases, window.name, document.cookie];
  });
  if (tab.plain) {
    await tab.emulateMedia({ media: null });
    await tab.goto("about:blank");
    await tab.mouse.move(0, 0);
    idle.push(tab);
  } else await tab.context().close();
  assert.deepEqual(faults, [], what);
  assert.deepEqual(kept, [0, 0, 0, "", ""], `${what}: kept in the browser`);
}

/** After the next picture. */
export const settled = (tab) =>
  tab.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );

/** What is seen on the stage: pixels and words, or the message in their place. */
export const picture = (tab) =>
  tab.evaluate(() => {
    const shown = document.querySelector("#stage");
    const pixels = [...shown.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL());
    const message = document.querySelector(".message");
    return [...pixels, shown.innerText, message.hidden ? "" : message.textContent].join("\n");
  });

/** The picture with all settings as they begin. */
export async function afresh(tab) {
  await tab.evaluate(() => document.querySelector("#reset").click());
  await settled(tab);
  return picture(tab);
}

export const named = (id) => `[id="${id}"]`;

// Texts that mean something to the control that gets them; all others get "1".
const SAMPLES = { "permutation.words": "one two three" };

/** Other states of a control, one after the other, each reached with the keyboard or as a user would. */
export async function* states(tab, id, kind) {
  const input = tab.locator(named(id));
  if (kind === "range") {
    for (const key of ["End", "Home", "PageUp"]) {
      await input.focus();
      await tab.keyboard.press(key);
      yield key;
    }
  } else if (kind === "select") {
    const options = await input.evaluate((node) => [...node.options].map(({ value }) => value));
    for (const option of options) {
      await input.selectOption(option);
      yield option;
    }
  } else if (kind === "toggle") {
    await input.focus();
    await tab.keyboard.press("Space");
    yield "other";
  } else if (kind === "button") {
    await input.focus();
    await tab.keyboard.press("Enter");
    yield "pressed";
  } else if (kind === "text") {
    await input.fill(SAMPLES[id] ?? "1");
    yield "text";
  } else if (kind === "sketch") {
    await input.focus();
    for (const key of ["ArrowRight", "ArrowUp", "ArrowUp", "ArrowUp"])
      await tab.keyboard.press(key);
    yield "drawn";
  }
}
