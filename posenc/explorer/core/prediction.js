import { element } from "#core/dom.js";
import { sketchpad } from "#core/sketchpad.js";

// What is kept as the guess of a reader who asks for the answer without one.
export const SHOWN = "shown";

/**
 * The question of a chapter, and ways to answer it before the picture does: options to choose from,
 * or a curve to draw. Until then nothing on the page gives the answer away.
 *
 * chapter.predict is { options, right(s) } or { sketch: points, half }, see `sketchpad`, with `at`, the position
 * that the question is about, and `tells`, settings that show the answer.
 */
export function prediction(store, chapter, say, pageSay) {
  const { id, panel, predict } = chapter;
  const told = element("div", { class: "told", "aria-live": "polite" });
  const verdict = element("p", { class: "verdict" });
  const parts = predict.sketch ? drawn() : chosen();
  const peek = element("button", {
    type: "button", id: `${id}.peek`, class: "peek",
    textContent: pageSay("peek"),
    onclick: () => answer(SHOWN),
  });
  let answered = false;
  let now = null;

  /** The picture stays where the question left it, and that position is lit everywhere from now on. */
  function answer(guess) {
    const stays = "at" in predict ? { [panel.light]: now[panel.light] } : {};
    store.setGuess(id, guess, { ...stays, ...predict.tells });
  }
  function chosen() {
    const buttons = predict.options.map((option) =>
      element("button", {
        type: "button", id: `${id}.guess.${option}`,
        textContent: say(option),
        onclick: () => answer(option),
      }),
    );
    return {
      elements: [element("div", { class: "options" }, ...buttons)],
      show(guess, s) {
        const right = predict.right(s);
        predict.options.forEach((option, i) => {
          const said = guess === undefined ? "" : option === right ? "right" : option === guess ? "wrong" : "";
          buttons[i].className = said;
          buttons[i].setAttribute("aria-pressed", String(option === guess));
        });
        if (guess === undefined || guess === SHOWN) return "";
        return pageSay(guess === right ? "guessed_right" : "guessed_wrong");
      },
    };
  }
  function drawn() {
    let values = Array(predict.sketch).fill(0);
    const control = { points: predict.sketch, half: predict.half, value: values };
    const change = (curve) => {
      pad.show((values = curve));
      done.disabled = false;
    };
    const pad = sketchpad(control, `${id}.guess`, say("question"), pageSay, change);
    const done = element("button", {
      type: "button", id: `${id}.compare`,
      textContent: pageSay("compare_guess"),
      // The line that nobody has touched is nobody's guess.
      disabled: true,
      onclick: () => answer(values),
    });
    return {
      elements: [edged(pad.element, chapter.edges), done],
      show(guess) {
        pad.show(values);
        return Array.isArray(guess) ? pageSay("guess_drawn") : "";
      },
    };
  }
  return {
    element: element(
      "section",
      { class: "predict" },
      element(
        "p",
        { class: "question", id: `${id}.question` },
        element("strong", {}, pageSay("predict")), " ", say("question"),
      ),
      element("div", { class: "guess", role: "group", "aria-labelledby": `${id}.question` }, ...parts.elements, peek),
      told,
    ),
    show(s) {
      const guess = store.guess(id);
      now = s;
      verdict.textContent = parts.show(guess, s);
      verdict.hidden = !verdict.textContent;
      peek.hidden = guess !== undefined;
      // A reader of the page alone hears the answer when it appears.
      if ((guess !== undefined) === answered) return;
      answered = guess !== undefined;
      told.replaceChildren(...(answered ? [verdict, element("p", { class: "answer" }, say("answer"))] : []));
    },
  };
}

/** What one draws on, with numbers at its edges. */
const edged = (pad, edges) =>
  element(
    "span",
    { class: "pad" },
    pad,
    ...Object.entries(edges).map(([side, text]) => element("span", { class: `edge at-${side}`, "aria-hidden": "true" }, text)),
  );
