import { GLOBALS } from "#core/globals.js";
import { createPlayer } from "#core/player.js";
import { defaults, hash, initial, parse, settle } from "#core/settings.js";

// Marks the entries of the history that the page has seen.
const SEEN = "posenc";

/**
 * The one place that holds settings: changed here, told to listeners, kept in the address.
 *
 * `preferred` is the language and theme that the browser asks for; the address holds only what differs.
 */
export function createStore(panels, preferred) {
  const listeners = [];
  // Kept as long as the page is open, and in no address: who gets a link predicts for himself.
  const guesses = new Map();
  // Panels that follow the lit position, as it was chosen or named there: see `settle`.
  const following = new Set();
  let { settings, problems } = parse(location.hash, panels, preferred);
  let waiting = null;
  let returned = false;

  const address = (other = {}) => hash({ ...settings, ...other }, panels, preferred);
  const keep = () => {
    clearTimeout(waiting);
    waiting = null;
    if (location.hash === address()) return;
    // What one went back from has the values of then: a change leads away from it.
    if (returned) enter();
    else history.replaceState(SEEN, "", address());
  };
  const enter = () => {
    returned = false;
    if (location.hash !== address()) history.pushState(SEEN, "", address());
  };
  // Browsers refuse more than about a hundred addresses in ten seconds.
  const keepSoon = () => (waiting ??= setTimeout(keep, 250));
  const tell = (what) => {
    if (what === "all") player.stop();
    listeners.forEach((listener) => listener(what));
  };
  const player = createPlayer(() => tell("values"));

  const named = () => settings.at !== null && following.add(settings.panel);
  named();
  window.addEventListener("pagehide", keep);
  history.replaceState(SEEN, "");
  window.addEventListener("hashchange", () => {
    returned = history.state === SEEN;
    history.replaceState(SEEN, "");
    ({ settings, problems } = parse(location.hash, panels, preferred));
    named();
    tell("all");
  });

  return {
    panels,
    address,
    player,
    listen: (listener) => listeners.push(listener),
    get settings() {
      return settings;
    },
    get problems() {
      return problems;
    },
    get panel() {
      return panels.find((panel) => panel.id === settings.panel);
    },
    settled: (panel = panels.find(({ id }) => id === settings.panel), chapter = null) =>
      settle(panel, settings, chapter, following.has(panel.id)),
    /** Settings with which the workshop opens as a chapter stands. */
    held(chapter) {
      const { id, panel, holds = {} } = chapter;
      const of = (controls) =>
        Object.fromEntries(controls.filter((each) => each.id in holds).map((each) => [each.id, holds[each.id]]));
      const own = { ...settings.own.get(id), ...of(panel.controls) };
      const at = this.settled(panel, chapter)[panel.light] ?? settings.at;
      return { at, shared: { ...settings.shared, ...of(GLOBALS) }, own: new Map(settings.own).set(id, own) };
    },
    guess: (id) => guesses.get(id),
    /** What the reader said to a chapter, and settings of its panel that show the answer. */
    setGuess(id, value, changes = {}) {
      guesses.set(id, value);
      for (const [name, to] of Object.entries(changes)) this.setOwn(name, to, id);
      tell("values");
    },
    /** Language, theme: everything that is written on the page changes. */
    dress(changes) {
      settings = { ...settings, ...changes };
      keepSoon();
      tell("all");
    },
    /** To another panel of the workshop, or chapter of the story. */
    show(id, story = settings.story, changes = {}) {
      if (waiting) keep();
      problems = [];
      settings = { ...settings, ...changes, panel: id, story };
      enter();
      tell("all");
    },
    /** Another chapter has come into view: the address says so, and nothing is drawn anew. */
    reach(id) {
      if (settings.panel === id) return;
      player.stop();
      settings = { ...settings, panel: id };
      keepSoon();
    },
    setShared(id, value) {
      settings = { ...settings, shared: { ...settings.shared, [id]: value } };
      keepSoon();
      tell("values");
    },
    /** A panel's own setting; that of its light sets the position that is lit everywhere. */
    setOwn(id, value, panel = settings.panel) {
      if (id === panels.find((each) => each.id === panel).light) {
        settings = { ...settings, at: value };
        following.add(panel);
      }
      const own = { ...settings.own.get(panel), [id]: value };
      settings = { ...settings, own: new Map(settings.own).set(panel, own) };
      keepSoon();
      tell("values");
    },
    /** The shared settings and those of the panel shown as they began; Back undoes it. */
    reset() {
      if (waiting) keep();
      const { shared } = defaults(panels, preferred);
      const panel = panels.find(({ id }) => id === settings.panel);
      const own = new Map(settings.own).set(panel.id, initial(panel));
      settings = { ...settings, at: null, shared, own };
      problems = [];
      enter();
      tell("all");
    },
    dismiss() {
      problems = [];
      tell("values");
    },
  };
}
