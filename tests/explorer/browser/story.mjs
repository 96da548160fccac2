// The story: what is seen without scrolling, what is told when, and what follows the hand.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { chapters, close, named, open, settled, turn } from "./tab.mjs";

const section = (id) => named(`chapter.${id}`);
const pixels = (tab, id) =>
  tab.evaluate(
    (name) => [...document.querySelectorAll(`${name} canvas`)].map((canvas) => canvas.toDataURL()).join(),
    section(id),
  );

test("each chapter shows its picture and controls without scrolling, in both languages and themes", async () => {
  for (const [width, height] of [[1400, 900], [390, 844]]) {
    for (const [lang, theme] of [["en", "light"], ["zh", "dark"]]) {
      const tab = await open(`#lang=${lang}&theme=${theme}`, { width, height });
      for (const { id, title } of chapters) {
        await turn(tab, `#${id}&lang=${lang}&theme=${theme}`);
        const seen = await tab.evaluate((name) => {
          const chapter = document.querySelector(name);
          const last = chapter.querySelector(".picture").lastElementChild.getBoundingClientRect();
          const blank = [...chapter.querySelectorAll(".stage > figure canvas")].filter((canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return data.every((value) => value === data[0]);
          });
          const formula = chapter.querySelector(".formula");
          return {
            drawings: chapter.querySelectorAll(".stage > *").length,
            blank: blank.length,
            message: chapter.querySelector(".message").hidden,
            below: Math.round(last.bottom - innerHeight),
            over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            cut: formula.scrollWidth - formula.clientWidth,
            unnamed: [...chapter.querySelectorAll(".plot")].filter((plot) => !plot.ariaLabel).length,
            answer: chapter.querySelectorAll(".answer").length,
            title: chapter.querySelector(".title").textContent,
          };
        }, section(id));
        const where = `${id} ${lang} ${theme} ${width}`;
        assert.ok(seen.drawings > 0 && seen.message, `${where}: nothing is drawn`);
        assert.ok(seen.title.endsWith(title[lang]), where);
        assert.ok(seen.below <= 0, `${where}: the controls are ${seen.below} px below the window`);
        assert.ok(seen.over <= 0 && seen.cut <= 0, `${where}: ${JSON.stringify(seen)}`);
        assert.deepEqual([seen.blank, seen.unnamed, seen.answer], [0, 0, 0], where);
      }
      await close(tab, `${lang} ${theme} ${width}`);
    }
  }
});

test("an answer is told when a guess is made, and the picture shows it", async () => {
  const tab = await open("");
  for (const { id, options } of chapters) {
    await turn(tab, `#${id}`);
    const before = await pixels(tab, id);
    const said = tab.locator(`${section(id)} .told`);
    assert.equal(await said.textContent(), "", id);
    const bridge = tab.locator(`${section(id)} .leads`);
    assert.equal(await bridge.isVisible(), false, `${id}: what follows is seen before the answer`);
    await tab.emulateMedia({ media: "print" });
    assert.equal(await bridge.isVisible(), true, id);
    await tab.emulateMedia({ media: null });
    if (!options.length) {
      assert.ok(await tab.locator(named(`${id}.compare`)).isDisabled(), `${id}: nobody has drawn the line yet`);
      await tab.locator(named(`${id}.guess`)).focus();
      await tab.keyboard.press("ArrowUp");
    }
    await tab.locator(named(options.length ? `${id}.guess.${options[0]}` : `${id}.compare`)).click();
    await settled(tab);
    assert.ok((await said.textContent()).length > 20, id);
    assert.equal(await bridge.isVisible(), true, id);
    assert.notEqual(await pixels(tab, id), before, `${id}: the picture tells nothing`);
    if (options.length) assert.equal(await tab.locator(`${section(id)} .guess .right`).count(), 1, id);
  }
  await close(tab);
});

test("arrow keys work each picture, as a pointer does", async () => {
  const tab = await open("");
  for (const { id } of chapters) {
    await turn(tab, `#${id}&at=5`);
    await tab.locator(named(`${id}.peek`)).click();
    await settled(tab);
    let changed = false;
    for (const plot of await tab.locator(`${section(id)} .plot`).all()) {
      await plot.focus();
      for (const key of ["ArrowRight", "ArrowLeft", "ArrowUp", "Enter"]) {
        const before = await pixels(tab, id);
        await tab.keyboard.press(key);
        await settled(tab);
        changed ||= (await pixels(tab, id)) !== before;
      }
    }
    assert.ok(changed, `${id}: no key changes its picture`);
  }
  await close(tab);
});

test("dragging q moves the position that is lit in every picture", async () => {
  const tab = await open("#rotation&at=7");
  await settled(tab);
  const box = await tab.locator(`${section("rotation")} canvas`).first().boundingBox();
  const x = (position) => box.x + 22 + ((box.width - 44) * position) / 31;
  const y = box.y + box.height - 52;
  await tab.mouse.move(x(7), y);
  await tab.mouse.down();
  await tab.mouse.move(x(20), y, { steps: 6 });
  await tab.mouse.up();
  await settled(tab);
  assert.equal(await tab.locator(named("rotation.m")).inputValue(), "20");
  await tab.waitForFunction(() => location.hash.includes("at=20"));
  await turn(tab, "#panel=clock&at=20");
  assert.equal(await tab.locator(named("clock.position")).inputValue(), "20");
  await close(tab);
});

test("what plays is stopped by a hand on a picture, and by scrolling on", async () => {
  const tab = await open("#binary");
  await settled(tab);
  const shown = () => tab.locator(named("clock.position.play")).textContent();
  const lit = () => tab.locator(named("clock.position")).inputValue();
  const play = async () => {
    await tab.evaluate(() => document.getElementById("binary.position.play").click());
    await settled(tab);
    assert.equal(await shown(), "Stop");
  };
  const stands = async () => {
    await tab.waitForFunction(() => document.getElementById("clock.position.play").textContent === "Play");
    const before = await lit();
    await tab.waitForTimeout(350);
    assert.equal(await lit(), before);
  };
  await turn(tab, "#clock&at=3");
  await turn(tab, "#binary&at=3");
  await play();
  const box = await tab.locator(`${section("binary")} canvas`).first().boundingBox();
  await tab.mouse.click(box.x + box.width / 2, box.y + 40);
  await stands();
  await play();
  await tab.evaluate((name) => document.querySelector(name).scrollIntoView(), section("clock"));
  await stands();
  await close(tab);
});

test("an address opens its chapter at its title", async () => {
  for (const width of [1400, 390])
    for (const id of ["rotation", chapters.at(-2).id]) {
      const tab = await open(`#${id}`, { width });
      await tab.waitForTimeout(600);
      const top = await tab.evaluate((name) => document.querySelector(`${name} .title`).getBoundingClientRect().top, section(id));
      assert.ok(top > 30 && top < 110, `${id}, ${width}: the title stands at ${top}`);
      await close(tab);
    }
});

test("the language changes where one reads, and the workshop leads back", async () => {
  const { id } = chapters.at(-1);
  const tab = await open(`#${id}`);
  const place = () => tab.evaluate((name) => Math.round(document.querySelector(name).getBoundingClientRect().top), section(id));
  await tab.waitForTimeout(300);
  await settled(tab);
  const before = await place();
  // By keyboard or script the page stays where it is: the button itself stands at its top.
  await tab.evaluate(() => document.querySelector("#lang").click());
  await settled(tab);
  assert.equal(await tab.evaluate(() => document.documentElement.lang), "zh-CN");
  assert.ok(Math.abs((await place()) - before) < 200, `${before} and then ${await place()}`);
  await tab.locator(named(`${id}.workshop`)).click();
  await tab.waitForFunction(() => document.querySelector("#title"));
  await tab.goBack();
  await tab.waitForFunction((name) => document.querySelector(name), section(id));
  await close(tab);
});

test("a frame in another page gets the height of what it shows, out of sight too", async () => {
  const page = process.env.PAGE;
  const around = join(dirname(page), "around.html");
  // As the docs tell others to do it.
  const told = readFileSync("../../docs/en/howto/figures.md", "utf8").match(/```html\n(.*?)```/s)[1];
  const snippet = told.replace("posenc-explorer.html", pathToFileURL(page).href);
  const workshop = `<iframe src="${pathToFileURL(page).href}#panel=masks&embed=1"></iframe>`;
  const far = `<div style="height: 3000px"></div>`;
  writeFileSync(around, `<!doctype html>${workshop}${far}${snippet}`);
  const tab = await open("#rotation");
  await tab.goto(pathToFileURL(around).href);
  await tab.waitForFunction(() => [...document.querySelectorAll("iframe")].every((frame) => parseFloat(frame.style.height) > 300));
  await settled(tab);
  for (const frame of tab.frames().slice(1)) {
    const over = await frame.evaluate(() => document.documentElement.scrollHeight - document.documentElement.clientHeight);
    assert.ok(over <= 0, `${frame.url().slice(-30)} scrolls by ${over}`);
    assert.equal(await frame.evaluate(() => document.querySelectorAll("nav, header").length), 0);
  }
  await close(tab);
});

/** Where a part of a chapter stands in the window. */
const place = (tab, id, part) =>
  tab.evaluate(([name, inside]) => {
    const { top, bottom, left, right, width, height } = document.querySelector(`${name} ${inside}`).getBoundingClientRect();
    return { top, bottom, left, right, width, height };
  }, [section(id), part]);

test("the answer brings its picture into the window, and at once where nothing shall move", async () => {
  for (const [width, height] of [[390, 844], [700, 450]]) {
    const tab = await open("", { width, height, reducedMotion: "reduce" });
    for (const { id } of chapters) {
      await turn(tab, `#${id}`);
      const button = tab.locator(named(`${id}.peek`));
      await button.scrollIntoViewIfNeeded();
      await button.click();
      await settled(tab);
      const canvas = await place(tab, id, ".stage canvas");
      const seen = Math.min(canvas.bottom, height) - Math.max(canvas.top, 0);
      const most = Math.min(canvas.height, height);
      assert.ok(seen > 0.7 * most, `${id} ${width}: ${seen} of ${most} px of the picture are seen`);
    }
    await close(tab);
  }
});

test("in a low window a slider is long enough to drag, and stands beside the top of its picture", async () => {
  const tab = await open("", { width: 700, height: 450, deviceScaleFactor: 2 });
  for (const { id } of chapters) {
    await turn(tab, `#${id}`);
    await tab.locator(named(`${id}.peek`)).click();
    await tab.evaluate((name) => document.querySelector(`${name} .picture`).scrollIntoView(), section(id));
    await settled(tab);
    const sliders = await tab.evaluate((name) =>
      [...document.querySelectorAll(`${name} input[type=range]`)].map((slider) => {
        const { width, bottom } = slider.getBoundingClientRect();
        return { width, below: bottom - innerHeight };
      }), section(id));
    for (const { width, below } of sliders) {
      assert.ok(width >= 150, `${id}: a slider of ${width} px`);
      assert.ok(below <= 0, `${id}: a slider ${below} px below the window`);
    }
    assert.ok((await place(tab, id, ".stage canvas")).top >= -1, id);
  }
  await close(tab);
});

test("what is drawn is read aloud in the units of its edges", async () => {
  const tab = await open("#beyond");
  await tab.locator(named("beyond.guess")).focus();
  for (let i = 0; i < 20; i += 1) await tab.keyboard.press("ArrowUp");
  assert.equal(await tab.locator(".guess .readout").last().textContent(), "point 1: 2.5");
  await close(tab);
});

test("on a phone every chapter's number is in the row of chapters, and no table makes the page wider", async () => {
  const tab = await open("", { width: 390, height: 844 });
  for (const { id } of chapters) {
    await turn(tab, `#${id}`);
    const links = await tab.evaluate(() =>
      [...document.querySelectorAll(".chapters a")].map((link) => {
        const { left, right, top } = link.getBoundingClientRect();
        return { left, right, top };
      }));
    assert.ok(links.every(({ left, right }) => left >= 0 && right <= 390), id);
    assert.equal(new Set(links.map(({ top }) => top)).size, 1, id);
  }
  for (const id of ["beyond", "stretching"]) {
    await turn(tab, `#panel=${id}`);
    const [page, tables] = await tab.evaluate(() => [
      document.documentElement.scrollWidth - innerWidth,
      [...document.querySelectorAll(".table")].map((table) => table.scrollWidth - table.clientWidth),
    ]);
    assert.ok(page <= 0 && tables[0] > 0, `${id}: ${page}, ${tables}`);
  }
  await close(tab);
});

test("a picture that stays in view while one reads ends above the table below it", async () => {
  const tab = await open("");
  const tables = [];
  for (const { id } of chapters) {
    await tab.locator(named(`${id}.peek`)).click();
    await settled(tab);
    const over = await tab.evaluate((name) => {
      const chapter = document.querySelector(name);
      const facts = chapter.querySelector(".facts");
      if (facts === null) return null;
      facts.scrollIntoView({ behavior: "instant" });
      return chapter.querySelector(".picture").getBoundingClientRect().bottom - facts.getBoundingClientRect().top;
    }, section(id));
    if (over !== null) tables.push([id, over]);
  }
  assert.ok(tables.length > 0);
  for (const [id, over] of tables) assert.ok(over <= 0, `${id}: ${over} px of the picture lie over the table`);
  await close(tab);
});
