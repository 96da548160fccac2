// Medians of speed, to be run alone: figures of a machine that has other work to do mean nothing.
import assert from "node:assert/strict";
import { test } from "node:test";

import { close, named, open, panels, picture, settled } from "./tab.mjs";

const RUNS = 9;

test("speed, as medians", async (context) => {
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
