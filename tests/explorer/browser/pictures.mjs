// Pictures: every panel, every control, every encoding.
import assert from "node:assert/strict";
import { test } from "node:test";

import { afresh, close, named, open, panels, picture, settled, states, turn } from "./tab.mjs";

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

test("no page is wider than its window, however wide that is", async () => {
  for (const width of [320, 768, 1000]) {
    const tab = await open("", { width });
    for (const hash of ["", ...panels.map(({ id }) => `#panel=${id}`)]) {
      await turn(tab, hash);
      const over = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(over <= 0, `${hash} ${width}: wider than the window by ${over}`);
    }
    await close(tab, String(width));
  }
});

test("a light picture has light paper where the system's colours are dark", async () => {
  const tab = await open("#panel=waves&theme=light", { forcedColors: "active", colorScheme: "dark" });
  const papers = await tab.evaluate(() =>
    [...document.querySelectorAll("#stage canvas")].map((canvas) => getComputedStyle(canvas).backgroundColor));
  assert.deepEqual(new Set(papers), new Set(["rgb(255, 255, 255)"]));
  await close(tab);
});

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
          // The first may be a name alone, which is as high as its letters.
          formula: Math.max(
            0,
            ...[...document.querySelectorAll(".formula math")].map(
              (math) => math.getBoundingClientRect().height,
            ),
          ),
          cut:
            document.querySelector(".formula").scrollWidth -
            document.querySelector(".formula").clientWidth,
        }));
        const where = `${id} ${lang} ${theme} ${width}`;
        assert.ok(seen.drawings > 0, `${where}: nothing is drawn`);
        assert.deepEqual([seen.blank, seen.unnamed, seen.message], [0, 0, ""], where);
        assert.ok(seen.over <= 0, `${where}: wider than the window by ${seen.over}`);
        assert.equal(seen.lang, { en: "en", zh: "zh-CN" }[lang]);
        assert.equal(seen.answer, false, `${where}: the answer shows before the prediction`);
        assert.ok(seen.formula > 10, `${where}: no formula`);
        assert.ok(seen.cut <= 0, `${where}: the formula is cut by ${seen.cut}`);
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

test("on every screen a curve that fills its picture is a band, and a finger reads cells", async () => {
  for (const deviceScaleFactor of [1, 2]) {
    const tab = await open("#panel=waves&length=4096&d=128&waves.span=4096", {
      deviceScaleFactor,
      hasTouch: true,
    });
    await settled(tab);
    const rows = await tab.locator(".curves .legend li").allTextContents();
    assert.ok(rows.length === 4 && rows.every((row) => row.includes("band")), rows.join());
    await turn(tab, "#panel=waves&length=4096&d=128&waves.span=64");
    const few = await tab.locator(".curves .legend li").allTextContents();
    assert.ok(few.length === 4 && !few.some((row) => row.includes("band")), few.join());
    // A path that is rounded to pixels has kinks.
    await tab.evaluate(() => {
      window.places = [];
      const { lineTo } = Path2D.prototype;
      Path2D.prototype.lineTo = function (x, y) {
        window.places.push(x, y);
        lineTo.call(this, x, y);
      };
    });
    await turn(tab, "#panel=waves&length=4096&d=32&waves.span=64");
    await tab.waitForFunction(() => window.places.length);
    const whole = await tab.evaluate(
      () => window.places.filter(Number.isInteger).length / window.places.length,
    );
    assert.ok(whole < 0.5, `${whole} of the numbers in a path are whole`);
    await tab.locator(".heatmap canvas").first().tap({ position: { x: 90, y: 90 } });
    assert.match(await tab.locator(".heatmap .readout").first().textContent(), /dimension/);
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

