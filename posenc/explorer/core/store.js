import { defaults, hash, parse, settle } from "#core/settings.js";

/**
 * The one place that holds settings: changed here, told to listeners, kept in the address.
 *
 * `preferred` is the language and theme that the browser asks for; the address holds only what differs.
 */
export function createStore(panels, preferred) {
  const listeners = [];
  let { settings, problems } = parse(location.hash, panels, preferred);
  let waiting = null;

  const address = (other = {}) => hash({ ...settings, ...other }, panels, preferred);
  const keep = () => {
    waiting = null;
    if (location.hash !== address()) history.replaceState(null, "", address());
  };
  // Browsers refuse more than about a hundred addresses in ten seconds.
  const keepSoon = () => (waiting ??= setTimeout(keep, 250));
  const tell = (what) => listeners.forEach((listener) => listener(what));

  window.addEventListener("pagehide", keep);
  window.addEventListener("hashchange", () => {
    ({ settings, problems } = parse(location.hash, panels, preferred));
    tell("all");
  });

  return {
    panels,
    address,
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
    settled: () =>
      settle(
        panels.find((panel) => panel.id === settings.panel),
        settings,
      ),
    /** Language, theme: everything that is written on the page changes. */
    dress(changes) {
      settings = { ...settings, ...changes };
      keepSoon();
      tell("all");
    },
    show(id) {
      if (waiting) keep();
      problems = [];
      settings = { ...settings, panel: id };
      history.pushState(null, "", address());
      tell("all");
    },
    setShared(id, value) {
      settings = { ...settings, shared: { ...settings.shared, [id]: value } };
      keepSoon();
      tell("values");
    },
    setOwn(id, value) {
      const own = { ...settings.own.get(settings.panel), [id]: value };
      settings = { ...settings, own: new Map(settings.own).set(settings.panel, own) };
      keepSoon();
      tell("values");
    },
    /** Everything as it began; panel, language and theme stay. */
    reset() {
      const { panel, lang, theme, embed } = settings;
      settings = { ...defaults(panels, preferred), panel, lang, theme, embed };
      problems = [];
      keepSoon();
      tell("all");
    },
    dismiss() {
      problems = [];
      tell("values");
    },
  };
}
