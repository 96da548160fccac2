// The explorer in a real browser: node --test tests/explorer/browser.mjs, with the page's path in PAGE,
// the browser's in CHROMIUM, and SPEED=1 to be told medians of speed. The address is a file's: there is no server and no network.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { chromium } from "playwright-core";

const PAGE = pathToFileURL(process.env.PAGE).href;
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
// Texts that mean something to the control that gets them; all others get "1".
const SAMPLES = { "permutation.words": "one two three" };
const RUNS = 9;

let browser;
let panels;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  const tab = await open("");
  panels = await tab.evaluate(async () => {
    const { PANELS } = await import("#panels/index.js");
    return PANELS.map(({ id, controls, text }) => ({
      id,
      controls: controls.map(({ id: control, kind }) => ({ id: control, kind })),
      title: { en: text.en.title, zh: text.zh.title },
    }));
  });
  await tab.context().close();
});

after(() => browser?.close());

/** A tab on the page, whose errors and requests are kept in `tab.faults`. */
async function open(hash, { width = 1400, height = 900, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    locale: "en-US",
    offline: true,
    ...options,
  });
  const tab = await context.newPage();
  tab.faults = [];
  tab.on("pageerror", (error) => tab.faults.push(`error: ${error.message}`));
  tab.on("console", (line) => {
    if (["error", "warning"].includes(line.type())) tab.faults.push(`console: ${line.text()}`);
  });
  tab.on("request", (request) => {
    const url = request.url();
    if (!/^(file|data|blob):/.test(url)) tab.faults.push(`request: ${url.slice(0, 80)}`);
  });
  await tab.goto(PAGE + hash);
  await tab.waitForSelector("#stage", { state: "attached" });
  return tab;
}

/** To another panel, in the same tab. */
async function turn(tab, hash) {
  await tab.evaluate((to) => (location.hash = to), hash);
  await settled(tab);
}

async function close(tab, what = "") {
  const { faults } = tab;
  await tab.context().close();
  assert.deepEqual(faults, [], what);
}

/** After the next picture. */
const settled = (tab) =>
  tab.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );

/** What is seen on the stage: pixels and words, or the message in their place. */
const picture = (tab) =>
  tab.evaluate(() => {
    const shown = document.querySelector("#stage");
    const pixels = [...shown.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL());
    const message = document.querySelector(".message");
    return [...pixels, shown.innerText, message.hidden ? "" : message.textContent].join("\n");
  });

/** The picture with all settings as they begin. */
async function afresh(tab) {
  await tab.evaluate(() => document.querySelector("#reset").click());
  await settled(tab);
  return picture(tab);
}

const named = (id) => `[id="${id}"]`;

/** Other states of a control, one after the other, each reached with the keyboard or as a user would. */
async function* states(tab, id, kind) {
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

async function changes(tab, id, kind) {
  const input = tab.locator(named(id));
  if (!(await input.isVisible()) || (await input.isDisabled())) return false;
  await settled(tab);
  const first = await picture(tab);
  for await (const _ of states(tab, id, kind)) {
    await settled(tab);
    if ((await picture(tab)) !== first) return true;
  }
  return false;
}

/** Whether a control changes the picture now, or in some state of the panel's other choices. */
async function everChanges(tab, panel, id, kind) {
  if (await changes(tab, id, kind)) return true;
  const choices = panel.controls.filter((each) => ["select", "toggle"].includes(each.kind));
  for (const choice of choices) {
    const other = `${panel.id}.${choice.id}`;
    if (other === id || !(await tab.locator(named(other)).isVisible())) continue;
    for await (const _ of states(tab, other, choice.kind)) {
      await settled(tab);
      if (await changes(tab, id, kind)) return true;
    }
  }
  return false;
}

test("every panel draws, in both languages and both themes, wide and narrow", async () => {
  for (const width of [1400, 390]) {
    for (const [lang, theme] of [
      ["en", "light"],
      ["zh", "dark"],
    ]) {
      const tab = await open(`#lang=${lang}&theme=${theme}`, { width });
      for (const { id, title } of panels) {
        await tab.evaluate(
          (hash) => (location.hash = hash),
          `#panel=${id}&lang=${lang}&theme=${theme}`,
        );
        await tab.waitForFunction(
          (text) => document.querySelector("#title")?.textContent.endsWith(text),
          title[lang],
        );
        const seen = await tab.evaluate(() => ({
          drawings: document.querySelectorAll("#stage > *").length,
          blank: [...document.querySelectorAll("#stage canvas")].filter((canvas) => {
            const { data } = canvas
              .getContext("2d")
              .getImageData(0, 0, canvas.width, canvas.height);
            return data.every((value) => value === data[0]);
          }).length,
          unnamed: [...document.querySelectorAll("#stage .plot")].filter((plot) => !plot.ariaLabel)
            .length,
          message: document.querySelector(".message").hidden
            ? ""
            : document.querySelector(".message").textContent,
          over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          lang: document.documentElement.lang,
          answer: document.querySelector(".answer").open,
          formula: document.querySelector(".formula math")?.getBoundingClientRect().height ?? 0,
        }));
        const where = `${id} ${lang} ${theme} ${width}`;
        assert.ok(seen.drawings > 0, `${where}: nothing is drawn`);
        assert.deepEqual([seen.blank, seen.unnamed, seen.message], [0, 0, ""], where);
        assert.ok(seen.over <= 0, `${where}: wider than the window by ${seen.over}`);
        assert.equal(seen.lang, { en: "en", zh: "zh-CN" }[lang]);
        assert.equal(seen.answer, false, `${where}: the answer shows before the prediction`);
        assert.ok(seen.formula > 10, `${where}: no formula`);
      }
      await close(tab, `${lang} ${theme} ${width}`);
    }
  }
});

test("every control changes its picture, and Reset brings it back", async () => {
  for (const panel of panels) {
    const tab = await open(`#panel=${panel.id}`);
    const begun = await afresh(tab);
    for (const { id, kind } of panel.controls) {
      const name = `${panel.id}.${id}`;
      assert.ok(await everChanges(tab, panel, name, kind), `${name} changes nothing`);
      assert.ok((await afresh(tab)) === begun, `after ${name} Reset brings another picture`);
    }
    await close(tab, panel.id);
  }
});

test("every shared setting that a panel names changes its picture", async () => {
  for (const panel of panels) {
    const tab = await open(`#panel=${panel.id}`);
    const used = await tab
      .locator(".bar select:enabled, .bar input[type=range]:enabled")
      .evaluateAll((nodes) =>
        nodes.map(({ id, type }) => ({ id, kind: type === "range" ? "range" : "select" })),
      );
    for (const { id, kind } of used) {
      assert.ok(await everChanges(tab, panel, id, kind), `${panel.id} does not read ${id}`);
      await afresh(tab);
    }
    await close(tab, panel.id);
  }
});

test("every encoding can be A and B in every panel that shows them", async () => {
  const tab = await open("");
  for (const panel of panels) {
    await turn(tab, `#panel=${panel.id}`);
    for (const id of ["a", "b"]) {
      const choose = tab.locator(`#${id}`);
      if (await choose.isDisabled()) continue;
      for await (const name of states(tab, id, "select")) {
        await settled(tab);
        const broken = await tab.evaluate(
          () =>
            document.querySelector("#stage").childElementCount === 0 &&
            document.querySelector(".message").hidden,
        );
        assert.ok(!broken, `${panel.id} with ${id}=${name}`);
      }
    }
    assert.deepEqual(tab.faults, [], panel.id);
  }
  await close(tab);
});

test("the keyboard alone reaches and works everything", async () => {
  for (const panel of panels) {
    const tab = await open(`#panel=${panel.id}`);
    const wanted = await tab.evaluate(() => {
      const nodes = document.querySelectorAll(
        "a[href], button, input, select, textarea, summary, [tabindex='0']",
      );
      const visible = [...nodes].filter(
        (node) => !node.disabled && node.checkVisibility({ visibilityProperty: true }),
      );
      visible.forEach((node, i) => (node.dataset.stop = i));
      return visible.length;
    });
    const reached = new Set();
    for (let i = 0; i < wanted + 20; i += 1) {
      await tab.keyboard.press("Tab");
      reached.add(await tab.evaluate(() => document.activeElement?.dataset.stop));
    }
    const missed = await tab.evaluate(
      (stops) =>
        [...document.querySelectorAll("[data-stop]")]
          .filter((node) => !stops.includes(node.dataset.stop))
          .map((node) => node.outerHTML.slice(0, 90)),
      [...reached],
    );
    assert.deepEqual(missed, [], `${panel.id}: not reached by Tab`);
    await tab.locator(".answer summary").focus();
    await tab.keyboard.press("Enter");
    assert.ok(await tab.locator(".answer p").first().isVisible(), "the answer opens by keyboard");
    for (const plot of await tab.locator(".curves .plot, .heatmap .plot").all()) {
      await plot.focus();
      await tab.keyboard.press("ArrowRight");
      await tab.keyboard.press("ArrowRight");
      const read = await plot.locator("xpath=../p[contains(@class, 'readout')]").textContent();
      assert.ok(read.length > 2, `${panel.id}: arrow keys read nothing`);
    }
    await close(tab, panel.id);
  }
  const tab = await open("");
  await tab.locator(`a${named("to.circle")}`).focus();
  await tab.keyboard.press("Enter");
  await tab.waitForFunction(() => location.hash.startsWith("#panel=circle"));
  assert.equal(await tab.evaluate(() => document.activeElement.id), "to.circle");
  await tab.goBack();
  await tab.waitForFunction(() => document.querySelector("#title").textContent.startsWith("1."));
  await close(tab);
});

test("state survives a reload", async () => {
  for (const panel of panels) {
    const tab = await open(`#panel=${panel.id}&lang=zh&theme=dark&d=32&length=48`);
    for (const { id, kind } of panel.controls) {
      const input = tab.locator(named(`${panel.id}.${id}`));
      if (!(await input.isVisible()) || kind === "text") continue;
      for await (const _ of states(tab, `${panel.id}.${id}`, kind)) break;
    }
    await settled(tab);
    await tab.waitForTimeout(300);
    await tab.evaluate(() => document.activeElement?.blur());
    const [before_, hash] = [await picture(tab), await tab.evaluate(() => location.hash)];
    await tab.reload();
    await tab.waitForSelector("#stage > *, .message:not([hidden])");
    await settled(tab);
    assert.equal(await tab.evaluate(() => location.hash), hash, panel.id);
    assert.ok(
      (await picture(tab)) === before_,
      `${panel.id} looks different after a reload: ${hash}`,
    );
    await close(tab, panel.id);
  }
});

test("a hostile address gives a clear message and a working page", async () => {
  const hostile = [
    "d=abc",
    "d=1e400",
    "length=-1",
    "a=<img src=x onerror=window.pwned=1>",
    "panel=__proto__",
    "lang=xx",
    "__proto__.x=1",
    "d=%E0%A4%A",
    "theme='\"><script>window.pwned=1</script>",
    "base=0",
    "heads=1e9",
    "javascript:alert(1)",
    "circle.pair=NaN",
    "permutation.words=%00%01",
    `permutation.words=${"x".repeat(25_000)}`,
  ];
  for (const text of hostile) {
    const tab = await open(`#${text}`);
    const seen = await tab.evaluate(() => ({
      pwned: window.pwned === 1,
      told: [".problems", ".message"].some((name) => !document.querySelector(name).hidden),
      images: document.querySelectorAll("main img, main script").length,
    }));
    assert.deepEqual(seen, { pwned: false, told: true, images: 0 }, text.slice(0, 60));
    await tab.locator("#lang").click();
    await settled(tab);
    assert.equal(
      await tab.evaluate(() => document.documentElement.lang),
      "zh-CN",
      text.slice(0, 60),
    );
    await close(tab, text.slice(0, 60));
  }
});

test("what cannot be used in a field or a config is refused with a message", async () => {
  const tab = await open("#panel=circle");
  await tab.locator("#d\\.number").fill("63.5e");
  await tab.keyboard.press("Enter");
  assert.match(await tab.locator("#problems").textContent(), /63\.5e/);
  assert.equal(await tab.locator("#d\\.number").inputValue(), "64");
  await tab.locator("#dismiss").click();
  assert.ok(await tab.locator("#problems").isHidden());
  await close(tab);
  const configs = [
    "{",
    "[]",
    "null",
    "1",
    '{"rope_parameters": 5}',
    '{"rope_scaling": {"rope_type": "yarn"}}',
    "<b>",
    '{"rope_parameters": {"rope_type": "yarn", "factor": -1e308, "rope_theta": "x"}}',
    `{"a": ${"[".repeat(5000)}`, '{"hidden_size": 1e99, "num_attention_heads": 0}',
    '{"rope_parameters": {"rope_type": "nothing_known", "rope_theta": 1e4}, "head_dim": 64}',
  ];
  for (const config of configs) {
    const page = await open("#panel=stretching&stretching.method=config");
    const input = page.locator("textarea");
    await input.fill(config);
    await settled(page);
    const told = await page.locator(".message").isVisible();
    assert.ok(told, `no message for ${config.slice(0, 60)}`);
    assert.ok((await page.locator(".message").textContent()).length > 10);
    await close(page, config.slice(0, 60));
  }
});

test("what one takes along: Python, SVG, CSV, a link", async () => {
  const permissions = ["clipboard-read", "clipboard-write"];
  const tab = await open("", { permissions });
  const saved = async (button) => {
    const [file] = await Promise.all([tab.waitForEvent("download"), tab.locator(button).click()]);
    return [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
  };
  for (const panel of panels) {
    await turn(tab, `#panel=${panel.id}&d=16`);
    const [svgName, svg] = await saved("#save_svg");
    assert.equal(svgName, `posenc-${panel.id}.svg`);
    const parsed = await tab.evaluate((text) => {
      const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
      const count = root.querySelectorAll("path, text, image, rect").length;
      const written = text.replace(/href="data:[^"]*"/g, "");
      return { name: root.nodeName, count, wrong: /NaN|undefined|Infinity/.test(written) };
    }, svg);
    assert.equal(parsed.name, "svg", panel.id);
    assert.ok(parsed.count > 5 && !parsed.wrong, `${panel.id}: ${JSON.stringify(parsed)}`);
    const [csvName, csv] = await saved("#save_csv");
    assert.equal(csvName, `posenc-${panel.id}.csv`);
    const lines = csv.trim().split("\r\n");
    assert.ok(lines.length > 1, `${panel.id}: an empty table`);
    assert.ok(!/undefined|\[object/.test(csv), panel.id);
    await tab.locator("#copy_python").click();
    await tab.locator(".status:not(:empty)").waitFor();
    const code = await tab.evaluate(() => navigator.clipboard.readText());
    assert.match(code, /import posenc/, panel.id);
    await tab.locator("#copy_link").click();
    await tab.waitForFunction(
      async (id) => (await navigator.clipboard.readText()).includes(`#panel=${id}&d=16`),
      panel.id,
    );
    assert.deepEqual(tab.faults, [], panel.id);
  }
  await close(tab);
});

test("inside another page it shows the panel alone", async () => {
  const tab = await open("#panel=circle&embed=1&lang=zh");
  assert.equal(await tab.locator("nav").count(), 0);
  assert.equal(await tab.locator("header").count(), 0);
  assert.ok(await tab.locator("#whole").isVisible());
  await close(tab);
});

test("a curve that fills its picture is a band, on every screen", async () => {
  for (const deviceScaleFactor of [1, 2]) {
    const tab = await open("#panel=waves&length=4096&d=128&waves.span=4096", { deviceScaleFactor });
    await settled(tab);
    const rows = await tab.locator(".curves .legend li").allTextContents();
    assert.ok(rows.length === 4 && rows.every((row) => row.includes("band")), rows.join());
    await turn(tab, "#panel=waves&length=4096&d=128&waves.span=64");
    const few = await tab.locator(".curves .legend li").allTextContents();
    assert.ok(few.length === 4 && !few.some((row) => row.includes("band")), few.join());
    await close(tab);
  }
});

test("a frame that has no room yet is no error", async () => {
  const tab = await open("#embed=1");
  for (const { id } of panels) {
    await tab.setViewportSize({ width: 400, height: 400 });
    await turn(tab, `#panel=${id}&embed=1`);
    await tab.setViewportSize({ width: 20, height: 20 });
    await turn(tab, `#panel=${id}&embed=1&d=32`);
    assert.deepEqual(tab.faults, [], id);
  }
  await close(tab);
});

// Only where it is asked for: figures of a machine that has other work to do mean nothing.
test("speed, as medians", { skip: !process.env.SPEED }, async (context) => {
  const first = [];
  for (let run = 0; run < RUNS; run += 1) {
    const tab = await open("#panel=circle");
    first.push(await tab.evaluate(() => performance.getEntriesByName("posenc:first")[0].startTime));
    await close(tab);
  }
  context.diagnostic(`first picture: ${median(first)} ms after the load began (goal 300)`);
  for (const panel of panels) {
    const tab = await open(`#panel=${panel.id}&length=4096&d=128`);
    await tab.evaluate(() => {
      window.times = [];
      addEventListener(
        "input",
        (event) => {
          // A message comes after the picture of the frame in which it is drawn.
          const channel = new MessageChannel();
          channel.port1.onmessage = () => window.times.push(performance.now() - event.timeStamp);
          requestAnimationFrame(() => channel.port2.postMessage(null));
        },
        true,
      );
    });
    const sliders = await tab
      .locator("article input[type=range], .bar input[type=range]:enabled")
      .evaluateAll((nodes) => nodes.filter((node) => node.checkVisibility()).map(({ id }) => id));
    const parts = [];
    for (const id of sliders) {
      await tab.evaluate(() => (window.times.length = 0));
      await tab.locator(named(id)).focus();
      for (let run = 0; run < RUNS; run += 1) {
        // Back and forth: the sizes stay those that are asked for.
        await tab.keyboard.press(run % 2 ? "ArrowLeft" : "ArrowRight");
        await settled(tab);
      }
      const times = await tab.evaluate(() => window.times);
      parts.push(`${id} ${times.length ? median(times) : "-"}`);
    }
    context.diagnostic(`slider to picture, ${panel.id}: ${parts.join(", ")} ms (goal 50)`);
    await close(tab, panel.id);
  }
});

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return Number(sorted[Math.floor(sorted.length / 2)].toFixed(1));
}
