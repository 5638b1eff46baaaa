// The model's guess: hidden until a person asks, so that it does not answer for them. Asking is sent with the label.

import { ask } from "./api.js";
import { button, h, key, own, quoted } from "./dom.js";
import { known } from "./hub.js";
import { say } from "./notices.js";
import { percent } from "./words.js";

const SHOWN = 3;

function ranked(classes) {
  return h(
    "ol",
    { class: "guesses", role: "list" },
    classes.slice(0, SHOWN).map((each) => {
      const bar = h("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(each.probability));
      return h("li", null, own(each.class), h("span", { class: "number" }, percent(each.probability)), bar);
    }),
  );
}

export function guessBox() {
  let item = null;
  let seen = false;
  const asking = button(["Show the model's guess ", key("H")], show, { class: "asking" });
  const told = h("div", { class: "told" });
  const node = h("section", { class: "guess", "aria-label": "The model's guess" }, asking, told);

  async function show() {
    if (!item || seen) return;
    const wanted = item;
    if (!known.project.model.labels) {
      told.replaceChildren(h(
        "p",
        { class: "quiet" },
        "There is no guess yet: the model learns once a batch is labeled, of two classes at least.",
      ));
      return;
    }
    try {
      const answer = await ask(`/api/items/${wanted.row}/guess`);
      if (item !== wanted) return;
      seen = true;
      asking.hidden = true;
      told.replaceChildren(h("p", { class: "quiet" }, "The model's guess"), ranked(answer.ranked));
      const [top] = answer.ranked;
      if (top) say(`The model guesses ${quoted(top.class)}, ${percent(top.probability)}.`);
    } catch (error) {
      if (item === wanted) told.replaceChildren(h("p", { class: "quiet" }, error.message));
    }
  }

  return {
    node,
    show,
    seen: () => seen,
    ask: (next) => {
      item = next;
      seen = false;
      asking.hidden = next === null;
      told.replaceChildren();
    },
  };
}
