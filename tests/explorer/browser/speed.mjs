// Medians of speed, to be run alone: figures of a machine that has other work to do mean nothing.
import assert from "node:assert/strict";
import { test } from "node:test";

import { chapters, close, named, open, panels, settled } from "./tab.mjs";

const RUNS = 9;

test("speed, as medians", async (context) => {
  for (const hash of ["", "#panel=circle"]) {
    const first = [];
    for (let run = 0; run < RUNS; run += 1) {
      // A tab with options of its own is new, with nothing of the page in it.
      const tab = await open(hash, { locale: "en-US" });
      first.push(await tab.evaluate(() => performance.getEntriesByName("posenc:first")[0].startTime));
      await close(tab);
    }
    context.diagnostic(`first picture, ${hash || "the story"}: ${median(first)} ms after the load began (goal 300)`);
  }
  for (const { id } of chapters) await sliders(context, `#${id}`, `${named(`chapter.${id}`)} input[type=range]`);
  const inPanels = "article input[type=range], .bar input[type=range]:enabled";
  for (const { id } of panels) await sliders(context, `#panel=${id}&length=4096&d=128`, inPanels);
});

async function sliders(context, hash, which) {
  const tab = await open(hash);
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
  const ids = await tab
    .locator(which)
    .evaluateAll((nodes) => nodes.filter((node) => node.checkVisibility()).map(({ id }) => id));
  const parts = [];
  for (const id of ids) {
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
  context.diagnostic(`slider to picture, ${hash}: ${parts.join(", ")} ms (goal 50)`);
  await close(tab, hash);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return Number(sorted[Math.floor(sorted.length / 2)].toFixed(1));
}
