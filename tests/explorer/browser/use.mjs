// Use: keyboard, address, messages, what one takes along, inside another page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { close, named, open, panels, picture, settled, states, turn } from "./tab.mjs";

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
  const tab = await open("#panel=permutation");
  await tab.locator(`a${named("to.circle")}`).focus();
  await tab.keyboard.press("Enter");
  await tab.waitForFunction(() => location.hash.startsWith("#panel=circle"));
  assert.equal(await tab.evaluate(() => document.activeElement.id), "to.circle");
  await tab.goBack();
  await tab.waitForFunction(() => document.querySelector("#title").textContent === "Why position?");
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

test("what one takes along: Python, SVG, CSV, a link, paper", async () => {
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
  await turn(tab, "#panel=bias&theme=dark");
  const shown = await picture(tab);
  const page = () =>
    tab.evaluate(() => {
      const across = (name) =>
        [...document.querySelectorAll(name)].map((node) => node.getBoundingClientRect().right);
      return {
        background: getComputedStyle(document.documentElement).backgroundColor,
        canvas: Math.max(...across("canvas")),
        question: Math.max(...across(".question")),
      };
    });
  // As a sheet of A4 is, and as the browser announces that it prints.
  await tab.setViewportSize({ width: 717, height: 1000 });
  await settled(tab);
  await tab.emulateMedia({ media: "print" });
  await tab.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const paper = await page();
  assert.equal(paper.background, "rgb(255, 255, 255)");
  assert.ok(paper.canvas <= 717 && paper.question > 500, JSON.stringify(paper));
  assert.notEqual(await picture(tab), shown);
  await tab.emulateMedia({ media: "screen" });
  await tab.evaluate(() => dispatchEvent(new Event("afterprint")));
  await tab.setViewportSize({ width: 1400, height: 900 });
  await settled(tab);
  assert.ok((await picture(tab)) === shown, "after printing the page is as it was");
  await close(tab);
});

test("what one has left is kept by nobody", async () => {
  const tab = await open("");
  const session = await tab.context().newCDPSession(tab);
  const round = async () => {
    for (const hash of ["#panel=waves", "#panel=bias", "#circle"]) await turn(tab, hash);
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Memory.getDOMCounters")).jsEventListeners;
  };
  await round();
  const first = await round();
  for (let i = 0; i < 3; i += 1) await round();
  assert.ok((await round()) < first + 100);
  await close(tab);
});

test("inside another page it shows the panel alone", async () => {
  const tab = await open("#panel=circle&embed=1&lang=zh");
  assert.equal(await tab.locator("nav").count(), 0);
  assert.equal(await tab.locator("header").count(), 0);
  assert.ok(await tab.locator("#whole").isVisible());
  await close(tab);
});
