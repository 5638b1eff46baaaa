// What the page says: short notices that go again, a banner for what waits, and words for screen readers.

import { byId, button, h } from "./dom.js";
import { on } from "./hub.js";
import { tryNow } from "./outbox.js";

const SECONDS = 6;

/** Shown for a few seconds and read out. `kind` is "wrong" for what did not work. */
export function notice(sentence, kind = "") {
  const node = h("p", { class: `notice ${kind}` }, sentence);
  const box = byId("notices");
  while (box.children.length > 2) box.firstChild.remove();
  box.append(node);
  setTimeout(() => node.remove(), 1000 * (kind ? 2 * SECONDS : SECONDS));
}

/** For errors: the sentence of what did not work. */
export function wrong(error) {
  notice(error.message, "wrong");
}

/** Read out, not shown. */
export function say(sentence) {
  byId("said").textContent = sentence;
}

function showWaiting(waiting) {
  const box = byId("trouble");
  box.hidden = waiting === null;
  if (waiting === null) {
    notice("Saved: the server answers again.");
    return;
  }
  const told = box.querySelector(".told");
  const sentence = `${waiting.what} is not saved yet. ${waiting.sentence}`;
  if (told?.textContent === sentence) return;
  box.replaceChildren(
    h("span", { class: "told", dir: "auto" }, sentence),
    h("span", { class: "quiet" }, " It is kept here and sent again until it arrives; you can leave the page open. "),
    button("Try now", tryNow),
  );
}

export function watchOutbox() {
  on("waiting", showWaiting);
}
