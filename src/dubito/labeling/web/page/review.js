// Labels that a model trained without them contradicts: the user keeps or changes each.

import { request } from "./api.js";
import { button, h, kbd, userText, visibleText, isolated } from "./dom.js";
import { state, on, onClassChange, emit } from "./state.js";
import { renderBrief, similarUrl } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { showNotice, announce, showError } from "./notices.js";
import { send, undoOne } from "./outbox.js";
import * as queue from "./queue.js";
import { percent, plural } from "./format.js";

const reviewed = new Set();

export function makeReviewView(view) {
  let items = [];
  let current = 0;
  let busy = false;

  const intro = h("p", { class: "lead" }, "Looking for labels that the model doubts.");
  const list = h("ol", { class: "reviews", role: "list" });
  view.replaceChildren(h("div", { class: "reviewing" }, h("h2", null, "Labels to look at again"), intro, list));

  async function load() {
    const answer = await request("/api/review?limit=50");
    items = answer.items.filter((item) => !reviewed.has(item.row));
    current = Math.min(current, Math.max(0, items.length - 1));
    draw();
  }

  function draw() {
    intro.textContent = items.length
      ? `${plural(items.length, "label")}, the most doubtful first. Each is judged by a model that was trained without it. Enter keeps, a class's key changes, Backspace undoes.`
      : noDoubtsText();
    list.replaceChildren(...items.map(entry));
    markCurrent();
  }

  function noDoubtsText() {
    const { state: name, labels } = state.project.model;
    if (name === "none" || !labels) return "There is no model yet that could doubt a label: it learns once a batch is labeled, of two classes at least.";
    return "The model doubts none of your labels. Come back after the next round.";
  }

  function entry(item, index) {
    const said = h(
      "p",
      { class: "verdict" },
      "Labeled ",
      userText(item.label, { class: "said" }),
      item.by ? h("span", { class: "quiet" }, " by ", userText(item.by)) : null,
      h("br"),
      "The model says ",
      userText(item.guess, { class: "said" }),
      ` (${percent(item.probability)}, and ${percent(item.of_label)} for the label)`,
    );
    const acts = h("div", { class: "acts" },
      button(["Keep ", userText(item.label), " ", kbd("Enter")], () => decide(index, item.label)),
      button(["Change to ", userText(item.guess)], () => decide(index, item.guess)),
      otherClasses(item, index),
      h("a", { href: similarUrl(item.row) }, "More like this"),
    );
    return h(
      "li",
      { class: `entry${item.text ? " is-text" : ""}`, onclick: () => ((current = index), markCurrent(false)) },
      item.text ? h("div", { class: "passage", tabindex: "0", role: "group", "aria-label": "Text", dir: "auto" }, item.text) : renderBrief(item, 256),
      h("div", { class: "about" }, userText(item.id, { class: "id", title: visibleText(item.id) }), said, acts),
    );
  }

  function otherClasses(item, index) {
    const rest = state.classes.filter((name) => name !== item.label && name !== item.guess);
    const options = [
      h("option", { value: "" }, "Another"),
      ...rest.map((name, number) => h("option", { value: String(number) }, visibleText(name))),
    ];
    return h(
      "select",
      {
        "aria-label": `Change the label of ${isolated(item.id)} to another class`,
        onchange: (event) => decide(index, rest[Number(event.target.value)]),
      },
      options,
    );
  }

  function markCurrent(scroll = true) {
    [...list.children].forEach((node, index) => {
      if (index === current) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
    });
    if (scroll) list.children[current]?.scrollIntoView({ block: "nearest" });
  }

  async function decide(index, name) {
    const item = items[index];
    if (busy || !item) return;
    busy = true;
    list.children[index].classList.add("is-saving");
    try {
      const body = { annotator: state.annotator, row: item.row, class: name, guess_seen: true, review: true };
      const answer = await send("/api/labels", body, `Your label “${isolated(name)}”`);
      reviewed.add(item.row);
      items = items.filter((each) => each !== item);
      current = Math.min(current, Math.max(0, items.length - 1));
      emit("labels", { labeled: answer.labeled });
      draw();
      announce(name === item.label ? `Kept ${name}.` : `Changed from ${item.label} to ${name}.`);
    } catch (error) {
      showError(error);
      draw();
    } finally {
      busy = false;
    }
  }

  async function undo() {
    if (busy) return;
    busy = true;
    try {
      const item = await undoOne();
      reviewed.delete(item.row);
      if (item.label) showNotice(`Undone: the label of ${isolated(item.id)} is ${isolated(item.label)} again.`);
      else {
        queue.putFirst({ ...item, undone: true });
        showNotice("Undone: that item comes first under Label.");
      }
      await load();
      current = Math.max(0, items.findIndex((each) => each.row === item.row));
      markCurrent();
    } catch (error) {
      showError(error);
    } finally {
      busy = false;
    }
  }

  function onKey(pressed, event) {
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    if (pressed === "ArrowDown" || pressed === "ArrowUp") {
      current = Math.min(items.length - 1, Math.max(0, current + (pressed === "ArrowDown" ? 1 : -1)));
      markCurrent();
      if (items[current]) announce(`Labeled ${items[current].label}, the model says ${items[current].guess}.`);
      return true;
    }
    if (pressed === "Enter" && !isControl(event.target)) return event.repeat || (decide(current, items[current]?.label), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) decide(current, name);
    return true;
  }

  load().catch((error) => (intro.textContent = error.message));
  const reload = () => load().catch(showError);
  const cleanups = [on("round", reload), onClassChange(reload)];
  return { onKey, end: () => cleanups.forEach((end) => end()) };
}
