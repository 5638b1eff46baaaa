// Messages to the user: notices that disappear, a banner for unsaved changes, and announcements for screen readers.

import { button, byId, h } from "./dom.js";
import { on } from "./state.js";
import { retryNow } from "./outbox.js";

const SECONDS = 6;

/** The box of the notices, moved into the open dialog if there is one, because a dialog covers everything else. */
function noticeBox() {
  const box = byId("notices");
  const home = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (box.parentNode !== home) home.append(box);
  return box;
}

/** Shows a message for a few seconds; screen readers read it. `kind` is "wrong" for errors. It replaces an earlier
 * message about the same topic. */
export function showNotice(sentence, kind = "", topic = sentence) {
  const node = h("p", { class: `notice ${kind}`, "data-topic": topic }, sentence);
  const box = noticeBox();
  for (const other of [...box.children]) if (other.dataset.topic === topic) other.remove();
  while (box.children.length > 2) box.firstChild.remove();
  box.append(node);
  setTimeout(() => node.remove(), 1000 * (kind ? 2 * SECONDS : SECONDS));
}

/** Shows the message of an error. */
export function showError(error) {
  showNotice(error.message, "wrong");
}

/** A message for screen readers only. */
export function announce(sentence) {
  byId("announcer").textContent = sentence;
}

function showUnsaved(waiting) {
  const box = byId("unsaved");
  box.hidden = waiting === null;
  if (waiting === null) {
    showNotice("Saved: the server answers again.");
    return;
  }
  const message = box.querySelector(".message");
  const sentence = `${waiting.what} is not saved yet. ${waiting.sentence}`;
  if (message?.textContent === sentence) return;
  box.replaceChildren(
    h("span", { class: "message", dir: "auto" }, sentence),
    h("span", { class: "quiet" }, " It is kept here and sent again until it arrives; you can leave the page open. "),
    button("Try now", retryNow),
  );
}

export function watchOutbox() {
  on("waiting", showUnsaved);
}
