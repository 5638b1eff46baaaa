// A dialog with one item of a list, as large as the window allows: zoom, answers, class, and neighbors.

import { classLabel } from "./classes.js";
import { openDialog } from "./dialogs.js";
import { button, h, userText, visibleText } from "./dom.js";
import { state } from "./state.js";
import { renderColumns, describeCopies, render, loadWhole } from "./item.js";
import { classOfKey, keyOf, keyOfEvent } from "./keys.js";
import { percent } from "./format.js";
import { makeZoom, zoomKey } from "./zoom.js";

/** `list` has count(), item(index), assign(index, name), like(index), near(index) and close(index). */
export function openCloseup(list, start) {
  let index = start;
  let zoomer = null;
  const stage = h("div", { class: "stage" });
  const facts = h("div", { class: "facts" });
  const classes = h("ul", { class: "classes", role: "list", "aria-label": "Classes" });
  const previousButton = button("←", () => show(index - 1), { "aria-label": "Previous item" });
  const nextButton = button("→", () => show(index + 1), { "aria-label": "Next item" });
  const body = h(
    "div",
    { class: "closeup" },
    stage,
    h(
      "div",
      { class: "about" },
      facts,
      classes,
      h(
        "div",
        { class: "acts" },
        button("Skip", () => assign(null)),
        button("More like this", () => closeAnd(list.like)),
        button("Near-copies", () => closeAnd(list.near)),
      ),
      h("div", { class: "acts" }, previousButton, nextButton),
    ),
  );
  const dialog = openDialog("", body);
  dialog.classList.add("is-large");
  dialog.addEventListener("close", () => list.close(index));
  dialog.addEventListener("keydown", onKey);

  function closeAnd(go) {
    dialog.close();
    go(index);
  }

  function show(next) {
    if (next < 0 || next >= list.count()) return;
    index = next;
    const item = list.item(index);
    if (item.is_cut) showWholeText(item);
    const shown = render(item, 1024);
    dialog.querySelector("h2").replaceChildren(userText(item.id));
    stage.replaceChildren(shown.node);
    zoomer = item.picture ? makeZoom(shown.node) : null;
    previousButton.disabled = index === 0;
    nextButton.disabled = index === list.count() - 1;
    draw();
  }

  async function showWholeText(item) {
    const { text } = await loadWhole(item);
    if (list.item(index).row === item.row) stage.replaceChildren(render({ ...item, text }).node);
  }

  function draw() {
    const item = list.item(index);
    facts.replaceChildren(...[labelLine(item), ...answerLines(item), copiesLine(item), predictionLine(item), renderColumns(item)].filter(Boolean));
    classes.classList.toggle("is-short", state.classes.every((name) => name.length === 1));
    classes.replaceChildren(...state.classes.map((name) => h("li", null, button(
      classLabel(name, keyOf(name)),
      () => assign(name),
      { class: `class${name === item.label ? " chosen" : ""}`, title: visibleText(name), "aria-pressed": String(name === item.label) },
    ))));
  }

  async function assign(name) {
    await list.assign(index, name);
    if (dialog.open) draw();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = keyOfEvent(event);
    const given = classOfKey(name, state.classes, event.shiftKey);
    if (zoomKey(zoomer, name, event)) event.preventDefault();
    else if (name === "ArrowLeft") show(index - 1);
    else if (name === "ArrowRight") show(index + 1);
    else if (given !== null && !event.repeat) assign(given);
  }

  show(index);
}

function labelLine(item) {
  if (item.label === null) return h("p", null, item.skipped ? "Skipped" : "Unlabeled");
  return h("p", null, "Labeled ", userText(item.label, { class: "said" }), item.by ? h("span", { class: "quiet" }, " by ", userText(item.by)) : null);
}

/** The answers of all annotators, if there are several. */
function answerLines(item) {
  const answers = Object.entries(item.answers ?? {});
  if (answers.length < 2) return [];
  return answers.map(([who, label]) => h("p", { class: "quiet" }, userText(who), ": ", label === null ? "skipped" : userText(label)));
}

function copiesLine(item) {
  const sentence = describeCopies(item);
  return sentence && h("p", { class: "quiet" }, sentence);
}

function predictionLine(item) {
  if (item.guess === null || item.guess === undefined) return null;
  return h("p", { class: "quiet" }, "The model says ", userText(item.guess), ` (${percent(item.probability)})`);
}
