// One item at a time. A key labels it; the next one shows when the server has the label on disk.

import { ask } from "./api.js";
import { classPanel, panelKey } from "./classes.js";
import { button, h, key, own } from "./dom.js";
import { guessBox } from "./guess.js";
import { guidelinesBox } from "./guidelines.js";
import { known, on, tell } from "./hub.js";
import { described } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { send } from "./outbox.js";
import * as queue from "./queue.js";
import { count, WHY } from "./words.js";

const SLOW = 150;

export function makeLabelView(view) {
  let shown = null;
  let since = 0;
  let busy = false;
  let last = null;

  const stage = h("div", { class: "stage" });
  const caption = h("p", { class: "caption" });
  const trail = h("p", { class: "trail", "aria-live": "off" });
  const guess = guessBox();
  const panel = classPanel(choose);
  const guidelines = guidelinesBox();
  const undoing = button(["Undo ", key("Backspace")], undo, { class: "undo" });
  const skipping = button(["Skip ", key("Space")], () => choose(null), { class: "skip" });
  const work = h(
    "section",
    { class: "work", "aria-label": "Item" },
    caption,
    stage,
    h("div", { class: "acts" }, undoing, trail, skipping),
  );
  view.replaceChildren(h(
    "div",
    { class: "labelling" },
    work,
    h("div", { class: "side" }, panel.node, guess.node, guidelines.node),
  ));

  function show() {
    shown = queue.first();
    panel.mark(null, "chosen");
    guess.ask(shown?.item ?? null);
    work.classList.toggle("is-empty", shown === null);
    if (shown === null) {
      caption.replaceChildren();
      stage.replaceChildren(empty());
      return;
    }
    stage.replaceChildren(shown.node);
    stage.scrollTop = 0;
    caption.replaceChildren(
      own(shown.item.id, { class: "id", title: shown.item.id }),
      h("span", { class: "quiet" }, whyPicked(shown.item)),
    );
    since = performance.now();
    say(`Next: ${described(shown.item)}`);
    tell("shown", shown.item);
  }

  function empty() {
    const sentence = queue.whyEmpty() ?? "Nothing is left to label in this round.";
    return h(
      "div",
      { class: "empty" },
      h("p", null, sentence),
      button(["Train and pick the next round ", key("T")], () => tell("train"), { class: "main" }),
    );
  }

  function whyPicked(item) {
    const left = queue.itemsLeft();
    const parts = [
      item.undone ? "undone: label it again" : WHY[item.why],
      item.label ? `labelled ${item.label} so far` : null,
      item.round ? `round ${item.round}` : null,
      left ? `${count(left)} left` : null,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  /** Nothing else happens until the server has answered; `what` is named while it does not. */
  async function once(act) {
    if (busy) return;
    busy = true;
    const slow = setTimeout(() => work.classList.add("is-saving"), SLOW);
    try {
      await act();
    } catch (error) {
      panel.mark(null, "chosen");
      wrong(error);
    } finally {
      clearTimeout(slow);
      work.classList.remove("is-saving");
      busy = false;
    }
  }

  function choose(name) {
    const entry = shown;
    if (!entry) return;
    once(async () => {
      panel.mark(name, "chosen");
      const { item } = entry;
      const seconds = Math.round(performance.now() - since) / 1000;
      const body = { annotator: known.annotator, row: item.row, class: name, guess_seen: guess.seen(), seconds };
      if (Number.isInteger(item.round)) body.round = item.round;
      const answer = await send("/api/labels", body, name === null ? "Skipping this item" : `Your label “${name}”`);
      queue.finish(item.row);
      last = { id: item.id, name };
      tell("labels", { labelled: answer.labelled });
      drawTrail();
      show();
    });
  }

  function undo() {
    once(async () => {
      const answer = await send("/api/undo", { annotator: known.annotator }, "Undoing your last label");
      queue.putFirst({ ...answer.item, undone: true });
      last = null;
      tell("labels", { labelled: answer.labelled });
      drawTrail();
      show();
      say(`Undone. ${described(answer.item)}`);
    });
  }

  function drawTrail() {
    trail.replaceChildren();
    if (last) trail.append("Last: ", last.name === null ? "skipped" : own(last.name, { class: "said" }));
  }

  function onKey(pressed, event) {
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    if (pressed === " ") return !isControl(event.target) && (event.repeat || (choose(null), true));
    if (pressed === "h") return guess.show(), true;
    const name = classOfKey(pressed, known.classes);
    if (name !== null) return event.repeat || (choose(name), true);
    return panelKey(pressed);
  }

  const endings = [on("queue", show), panel.end, guidelines.end];
  if (queue.first()) show();
  else {
    stage.replaceChildren(h("p", { class: "empty" }, "Asking for the first items."));
    queue.refill().then(show, (error) => notice(error.message, "wrong"));
  }
  return { onKey, end: () => endings.forEach((end) => end()) };
}

/** Shows one item before all others in the label view. */
export async function labelThis(row) {
  queue.putFirst(await ask(`/api/items/${row}`));
  location.hash = "label";
}

