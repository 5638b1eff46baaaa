// Labels that contradict the predictions of a model trained without them: keep or change each.

import { ask } from "./api.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { state, on, emit } from "./state.js";
import { brief, similarTo } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { send, undoOne } from "./outbox.js";
import * as queue from "./queue.js";
import { percent, some } from "./format.js";

const reviewed = new Set();

export function makeReviewView(view) {
  let items = [];
  let place = 0;
  let busy = false;

  const lead = h("p", { class: "lead" }, "Looking for labels that the model doubts.");
  const list = h("ol", { class: "reviews", role: "list" });
  view.replaceChildren(h("div", { class: "reviewing" }, h("h2", null, "Labels to look at again"), lead, list));

  async function load() {
    const answer = await ask("/api/review?limit=50");
    items = answer.items.filter((item) => !reviewed.has(item.row));
    place = Math.min(place, Math.max(0, items.length - 1));
    draw();
  }

  function draw() {
    lead.textContent = items.length
      ? `${some(items.length, "label")}, the most doubtful first. Each is judged by a model that was trained without it. Enter keeps, a class's key changes, Backspace undoes.`
      : nothing();
    list.replaceChildren(...items.map(entry));
    point();
  }

  function nothing() {
    const { state: name, labels } = state.project.model;
    if (name === "none" || !labels) return "There is no model yet that could doubt a label: it learns once a batch is labeled, of two classes at least.";
    return "The model doubts none of your labels. Come back after the next round.";
  }

  function entry(item, at) {
    const said = h(
      "p",
      { class: "verdict" },
      "Labeled ",
      own(item.label, { class: "said" }),
      item.by ? h("span", { class: "quiet" }, " by ", own(item.by)) : null,
      h("br"),
      "The model says ",
      own(item.guess, { class: "said" }),
      ` (${percent(item.probability)}, and ${percent(item.of_label)} for the label)`,
    );
    const acts = h("div", { class: "acts" },
      button(["Keep ", own(item.label), " ", key("Enter")], () => settle(at, item.label)),
      button(["Change to ", own(item.guess)], () => settle(at, item.guess)),
      another(item, at),
      h("a", { href: similarTo(item.row) }, "More like this"),
    );
    return h(
      "li",
      { class: `entry${item.text ? " is-text" : ""}`, onclick: () => ((place = at), point(false)) },
      item.text ? h("div", { class: "passage", tabindex: "0", role: "group", "aria-label": "Text", dir: "auto" }, item.text) : brief(item, 256),
      h("div", { class: "about" }, own(item.id, { class: "id", title: plain(item.id) }), said, acts),
    );
  }

  function another(item, at) {
    const rest = state.classes.filter((name) => name !== item.label && name !== item.guess);
    const options = [
      h("option", { value: "" }, "Another"),
      ...rest.map((name, number) => h("option", { value: String(number) }, plain(name))),
    ];
    return h(
      "select",
      {
        "aria-label": `Change the label of ${quoted(item.id)} to another class`,
        onchange: (event) => settle(at, rest[Number(event.target.value)]),
      },
      options,
    );
  }

  function point(scroll = true) {
    [...list.children].forEach((node, at) => {
      if (at === place) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
    });
    if (scroll) list.children[place]?.scrollIntoView({ block: "nearest" });
  }

  async function settle(at, name) {
    const item = items[at];
    if (busy || !item) return;
    busy = true;
    list.children[at].classList.add("is-saving");
    try {
      const body = { annotator: state.annotator, row: item.row, class: name, guess_seen: true, review: true };
      const answer = await send("/api/labels", body, `Your label “${quoted(name)}”`);
      reviewed.add(item.row);
      items = items.filter((each) => each !== item);
      place = Math.min(place, Math.max(0, items.length - 1));
      emit("labels", { labeled: answer.labeled });
      draw();
      say(name === item.label ? `Kept ${name}.` : `Changed from ${item.label} to ${name}.`);
    } catch (error) {
      wrong(error);
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
      if (item.label) notice(`Undone: the label of ${quoted(item.id)} is ${quoted(item.label)} again.`);
      else {
        queue.putFirst({ ...item, undone: true });
        notice("Undone: that item comes first under Label.");
      }
      await load();
      place = Math.max(0, items.findIndex((each) => each.row === item.row));
      point();
    } catch (error) {
      wrong(error);
    } finally {
      busy = false;
    }
  }

  function onKey(pressed, event) {
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    if (pressed === "ArrowDown" || pressed === "ArrowUp") {
      place = Math.min(items.length - 1, Math.max(0, place + (pressed === "ArrowDown" ? 1 : -1)));
      point();
      if (items[place]) say(`Labeled ${items[place].label}, the model says ${items[place].guess}.`);
      return true;
    }
    if (pressed === "Enter" && !isControl(event.target)) return event.repeat || (settle(place, items[place]?.label), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) settle(place, name);
    return true;
  }

  load().catch((error) => (lead.textContent = error.message));
  let changed = state.project.class_event;
  const followClasses = (project) => {
    if (project.class_event === changed) return;
    changed = project.class_event;
    load().catch(wrong);
  };
  const ends = [on("round", () => load().catch(wrong)), on("project", followClasses)];
  return { onKey, end: () => ends.forEach((end) => end()) };
}
