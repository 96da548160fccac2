// What the store leaves in the address and the history, in a browser's stead.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createStore } from "../../posenc/explorer/core/store.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { STORY } from "../../posenc/explorer/story/index.js";

/** A store on a page of its own, and the browser's buttons. */
function begin(hash) {
  const entries = [{ state: null, hash }];
  const heard = {};
  let at = 0;
  const write = (state, address) => ({ state, hash: address ?? entries[at].hash });
  const move = (by) => {
    if (!entries[at + by]) return;
    at += by;
    heard.hashchange();
  };
  globalThis.window = { addEventListener: (event, listener) => (heard[event] = listener) };
  globalThis.location = { get hash() { return entries[at].hash; } };
  globalThis.history = {
    get state() { return entries[at].state; },
    replaceState: (state, _, address) => (entries[at] = write(state, address)),
    pushState: (state, _, address) => entries.splice(++at, entries.length, write(state, address)),
  };
  const store = createStore(PANELS, { lang: "en", theme: "light" });
  const settle = () => heard.pagehide();
  const type = (address) => {
    history.pushState(null, "", address);
    heard.hashchange();
  };
  return { store, settle, type, back: () => move(-1), forward: () => move(1), entries };
}

test("Reset brings back this panel and the shared settings, and Back undoes it", () => {
  const { store, settle, back } = begin("#panel=own_wave&own_wave.expression=exp(-t)&d=32");
  store.show("circle");
  store.setOwn("pair", 3);
  settle();
  const changed = store.settings;
  store.reset();
  assert.equal(store.settings.shared.d, 64);
  assert.equal(store.settings.own.get("circle").pair, 8);
  assert.equal(store.settings.own.get("own_wave").expression, "exp(-t)");
  assert.match(location.hash, /own_wave\.expression=exp\(-t\)/);
  back();
  assert.deepEqual(store.settings, changed);
});

test("Reset of what is as it began leaves the history as it is", () => {
  const { store, entries } = begin("#panel=circle");
  store.reset();
  assert.equal(entries.length, 1);
});

test("a chapter that comes into view is in the address, without an entry", () => {
  const { store, settle, entries } = begin("");
  store.reach("rotation");
  store.setOwn("m", 9, "rotation");
  settle();
  assert.deepEqual(entries.map(({ hash }) => hash), ["#rotation&at=9"]);
  store.show("rotation", false);
  assert.deepEqual(entries.map(({ hash }) => hash).at(-1), "#panel=rotation&at=9");
});

test("the workshop opens as the chapter stands", () => {
  const { store } = begin("#stretching&stretching.factor=3");
  const chapter = STORY.find(({ id }) => id === "stretching");
  const s = store.settled(chapter.panel, chapter);
  store.show("stretching", false, store.held(chapter));
  assert.deepEqual({ ...store.settled(), method: 0 }, { ...s, method: 0 });
  assert.match(location.hash, /^#panel=stretching&trained=4096/);
  store.setOwn("position", 198, "number");
  store.show("rotation", false, store.held(STORY.find(({ id }) => id === "rotation")));
  assert.equal(store.settled().m, 12);
});

test("a question keeps its own position until it is answered or moved, and then that one is lit everywhere", () => {
  const { store } = begin("");
  const lit = (id) => {
    const chapter = STORY.find((each) => each.id === id);
    return store.settled(chapter.panel, chapter)[chapter.panel.light];
  };
  store.setOwn("position", 198, "number");
  assert.deepEqual(["number", "binary", "circle", "waves", "rotation"].map(lit), [198, 7, 7, 7, 12]);
  store.setOwn("lit", 29, "waves");
  assert.deepEqual(["number", "binary", "circle", "rotation"].map(lit), [29, 7, 29, 12]);
  store.setGuess("binary", "near", { position: 7 });
  assert.deepEqual(["number", "binary", "circle", "waves", "rotation"].map(lit), [7, 7, 7, 7, 12]);
  store.setOwn("m", 9, "rotation");
  assert.deepEqual(["number", "binary", "circle", "rotation"].map(lit), [9, 9, 9, 9]);
  assert.equal(begin("#rotation&at=30").store.settled().m, 30);
});

test("a guess is told to the page and kept out of the address", () => {
  const { store, settle } = begin("#rotation");
  const heard = [];
  store.listen((what) => heard.push(what));
  assert.equal(store.guess("rotation"), undefined);
  store.setGuess("rotation", "grows");
  settle();
  assert.deepEqual([store.guess("rotation"), heard, location.hash], ["grows", ["values"], "#rotation"]);
});

test("after Back and a change there is no Forward to the values of before", () => {
  const { store, settle, back, forward, entries } = begin("#panel=circle");
  store.show("clock");
  back();
  assert.equal(store.panel.id, "circle");
  store.setShared("d", 16);
  store.setShared("d", 8);
  settle();
  forward();
  assert.deepEqual([store.panel.id, store.settings.shared.d], ["circle", 8]);
  assert.deepEqual(entries.map(({ hash }) => hash), ["#panel=circle", "#panel=circle&d=8"]);
});

test("changes of a page that was just opened, or whose address was typed, make no entries", () => {
  const { store, settle, type, entries } = begin("#panel=circle");
  store.setShared("d", 16);
  settle();
  assert.equal(entries.length, 1);
  type("#panel=clock&d=32");
  store.setShared("d", 8);
  settle();
  assert.deepEqual(entries.map(({ hash }) => hash), ["#panel=circle&d=16", "#panel=clock&d=8"]);
});

test("what plays stops at another chapter, in another language, and when it is pressed in any chapter", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { store } = begin("#binary");
  let steps = 0;
  const plays = () => {
    const before = steps;
    t.mock.timers.tick(500);
    return [store.player.on, steps > before];
  };
  const leave = [
    () => store.reach("clock"),
    () => store.dress({ lang: "zh" }),
    () => store.show("waves"),
    () => store.player.stop(),
    () => store.player.toggle(() => assert.fail("a second one began to play")),
  ];
  for (const way of leave) {
    store.player.toggle(() => (steps += 1));
    assert.deepEqual(plays(), [true, true], String(way));
    way();
    assert.deepEqual(plays(), [false, false], String(way));
  }
});
