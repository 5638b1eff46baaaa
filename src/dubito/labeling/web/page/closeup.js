// One item of a list in a dialog, as large as the window allows: zoom, its answers, its class, and its neighbors.

import { classFace } from "./classes.js";
import { open } from "./dialogs.js";
import { button, h, key, own, plain } from "./dom.js";
import { state } from "./state.js";
import { beside, copiesOf, render, whole } from "./item.js";
import { classOfKey, keyOf, pressed } from "./keys.js";
import { percent } from "./format.js";
import { makeZoom, zoomKey } from "./zoom.js";

/** `list` has count(), item(place), assign(place, name), like(place), near(place) and close(place). */
export function openCloseup(list, start) {
  let place = start;
  let zoomer = null;
  const stage = h("div", { class: "stage" });
  const facts = h("div", { class: "facts" });
  const classes = h("ul", { class: "classes", role: "list", "aria-label": "Classes" });
  const before = button("←", () => show(place - 1), { "aria-label": "Previous item" });
  const after = button("→", () => show(place + 1), { "aria-label": "Next item" });
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
        button("More like this", () => leave(list.like)),
        button("Near-copies", () => leave(list.near)),
      ),
      h("div", { class: "acts" }, before, after),
    ),
  );
  const dialog = open("", body);
  dialog.classList.add("is-large");
  dialog.addEventListener("close", () => list.close(place));
  dialog.addEventListener("keydown", onKey);

  function leave(go) {
    dialog.close();
    go(place);
  }

  function show(next) {
    if (next < 0 || next >= list.count()) return;
    place = next;
    const item = list.item(place);
    if (item.is_cut) loadWhole(item);
    const shown = render(item, 1024);
    dialog.querySelector("h2").replaceChildren(own(item.id));
    stage.replaceChildren(shown.node);
    zoomer = item.picture ? makeZoom(shown.node) : null;
    before.disabled = place === 0;
    after.disabled = place === list.count() - 1;
    draw();
  }

  async function loadWhole(item) {
    const { text } = await whole(item);
    if (list.item(place).row === item.row) stage.replaceChildren(render({ ...item, text }).node);
  }

  function draw() {
    const item = list.item(place);
    facts.replaceChildren(...[standing(item), ...others(item), copies(item), prediction(item), beside(item)].filter(Boolean));
    classes.classList.toggle("is-short", state.classes.every((name) => name.length === 1));
    classes.replaceChildren(...state.classes.map((name) => h("li", null, button(
      classFace(name, keyOf(name)),
      () => assign(name),
      { class: `class${name === item.label ? " chosen" : ""}`, title: plain(name), "aria-pressed": String(name === item.label) },
    ))));
  }

  async function assign(name) {
    await list.assign(place, name);
    if (dialog.open) draw();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = pressed(event);
    const given = classOfKey(name, state.classes, event.shiftKey);
    if (zoomKey(zoomer, name, event)) event.preventDefault();
    else if (name === "ArrowLeft") show(place - 1);
    else if (name === "ArrowRight") show(place + 1);
    else if (given !== null && !event.repeat) assign(given);
  }

  show(place);
}

function standing(item) {
  if (item.label === null) return h("p", null, item.skipped ? "Skipped" : "Unlabeled");
  return h("p", null, "Labeled ", own(item.label, { class: "said" }), item.by ? h("span", { class: "quiet" }, " by ", own(item.by)) : null);
}

/** The answers of all annotators, if there are several. */
function others(item) {
  const answers = Object.entries(item.answers ?? {});
  if (answers.length < 2) return [];
  return answers.map(([who, label]) => h("p", { class: "quiet" }, own(who), ": ", label === null ? "skipped" : own(label)));
}

function copies(item) {
  const sentence = copiesOf(item);
  return sentence && h("p", { class: "quiet" }, sentence);
}

function prediction(item) {
  if (item.guess === null || item.guess === undefined) return null;
  return h("p", { class: "quiet" }, "The model says ", own(item.guess), ` (${percent(item.probability)})`);
}
