// One item at a time. A key labels it once it has been seen; the next one shows when the server has the label on disk.

import { ask } from "./api.js";
import { classPanel, panelKey } from "./classes.js";
import { openExport } from "./dialogs.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { guessBox } from "./guess.js";
import { guidelinesBox } from "./guidelines.js";
import { known, on, tell } from "./hub.js";
import { beside, described } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { send } from "./outbox.js";
import * as queue from "./queue.js";
import { undoOne } from "./undo.js";
import { count, some, WHY } from "./words.js";

const SLOW = 150;
const HINT = 3000;

export function makeLabelView(view) {
  let shown = null;
  let since = 0;
  let busy = false;
  let last = null;
  let sight = "coming";
  let hinting = 0;

  const stage = h("div", { class: "stage" });
  const caption = h("p", { class: "caption" });
  const said = h("div", { class: "besides" });
  const trail = h("p", { class: "trail", "aria-live": "off" });
  const guess = guessBox();
  const panel = classPanel(choose);
  const guidelines = guidelinesBox();
  const undoing = button(["Undo ", key("Backspace")], undo, { class: "undo" });
  const skipping = button(["Skip ", key("Space")], skip, { class: "skip" });
  const work = h(
    "section",
    { class: "work", "aria-label": "Item" },
    caption,
    stage,
    said,
    h("div", { class: "acts" }, undoing, trail, skipping),
  );
  view.replaceChildren(h(
    "div",
    { class: "labeling" },
    work,
    h("div", { class: "side" }, panel.node, guess.node, guidelines.node),
  ));

  function show() {
    shown = queue.first();
    panel.mark(null, "chosen");
    skipping.firstChild.textContent = shown?.item.label ? "Leave it " : "Skip ";
    guess.ask(shown?.item ?? null);
    work.classList.toggle("is-empty", shown === null);
    said.replaceChildren(...[shown && beside(shown.item)].filter(Boolean));
    if (shown === null) {
      caption.replaceChildren();
      stage.replaceChildren(empty());
      return;
    }
    stage.replaceChildren(shown.node);
    stage.scrollTop = 0;
    caption.replaceChildren(
      own(shown.item.id, { class: "id", title: plain(shown.item.id) }),
      h("span", { class: "quiet" }, whyPicked(shown.item)),
    );
    look(shown);
    say(`Next: ${described(shown.item)}`);
    tell("shown", shown.item);
  }

  /** Nothing is labeled before it is on the screen, and what cannot be shown only if the person insists. */
  function look(entry) {
    sight = "coming";
    since = performance.now();
    work.classList.add("is-coming");
    entry.ready.then((isSeen) => requestAnimationFrame(() => {
      if (shown !== entry) return;
      sight = isSeen ? "seen" : "broken";
      since = performance.now();
      work.classList.remove("is-coming");
      if (!isSeen) entry.node.replaceChildren(entry.node.firstChild, insisting());
    }));
  }

  function insisting() {
    const node = button("Label it anyway", () => {
      sight = "anyway";
      node.replaceWith(h("p", { class: "quiet" }, "The next class that you choose is its label."));
    });
    return node;
  }

  function isAllAnswered() {
    const { labeled, skipped, items } = known.project;
    return labeled + skipped >= items;
  }

  function finished() {
    const { labeled, skipped } = known.project;
    const aside = skipped ? ` ${some(skipped, "item was", "items were")} skipped.` : "";
    const sentence = skipped ? `Every item is answered: ${some(labeled, "label")}.` : `${some(labeled, "item is", "items are")} labeled, all there are.`;
    return h(
      "div",
      { class: "empty is-finished" },
      h("p", null, `${sentence}${aside}`),
      h(
        "div",
        { class: "acts" },
        button("Export the labels", openExport, { class: "main" }),
        button(["Review doubtful labels ", key("R")], () => (location.hash = "review")),
      ),
    );
  }

  function empty() {
    if (queue.isComing()) return h("p", { class: "empty" }, "Asking for the next items.");
    if (isAllAnswered()) return finished();
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
    const undone = item.label ? `undone: its label is ${quoted(item.label)} again` : "undone: label it again";
    const parts = [
      item.undone ? undone : WHY[item.why],
      item.label && !item.undone ? `labeled ${quoted(item.label)} so far` : null,
      item.round ? `round ${item.round}` : null,
      left ? `${count(left)} left` : null,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  /** Nothing else happens until the server has answered; `what` is named while it does not. */
  async function once(act) {
    if (busy) return hint("Too fast: the last one is still on its way, so this did nothing.");
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
    if (name !== null && !busy && sight === "coming") return hint("Too fast: this item is not on the screen yet.");
    if (name !== null && !busy && sight === "broken") {
      return notice("Not labeled: nobody can see this picture. Skip it, or choose “Label it anyway” first.");
    }
    once(async () => {
      panel.mark(name, "chosen");
      const { item } = entry;
      const seconds = Math.round(performance.now() - since) / 1000;
      const body = { annotator: known.annotator, row: item.row, class: name, guess_seen: guess.seen(), seconds };
      if (Number.isInteger(item.round)) body.round = item.round;
      const answer = await send("/api/labels", body, name === null ? "Skipping this item" : `Your label “${quoted(name)}”`);
      queue.finish(item.row);
      last = { id: item.id, name };
      tell("labels", { labeled: answer.labeled });
      drawTrail();
      tell("queue");
    });
  }

  /** A label that stands is left as it is: to skip an item is not to take its label away. */
  function skip() {
    if (busy || !shown?.item.label) return choose(null);
    hint(`Left as it is: ${quoted(shown.item.label)}.`);
    queue.drop([shown.item.row]);
    show();
  }

  function undo() {
    once(async () => {
      const item = await undoOne();
      queue.putFirst({ ...item, undone: true });
      last = null;
      drawTrail();
      show();
      say(`Undone. ${described(item)}`);
    });
  }

  /** In the place of the trail, for a moment: what was pressed did nothing. */
  function hint(sentence) {
    clearTimeout(hinting);
    trail.replaceChildren(sentence);
    trail.classList.add("is-hint");
    say(sentence);
    hinting = setTimeout(() => {
      hinting = 0;
      drawTrail();
    }, HINT);
  }

  function drawTrail() {
    if (hinting) return;
    trail.classList.remove("is-hint");
    trail.replaceChildren();
    if (last) trail.append("Last: ", last.name === null ? "skipped" : own(last.name, { class: "said" }));
  }

  function onKey(pressed, event) {
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    if (pressed === " ") return !isControl(event.target) && (event.repeat || (skip(), true));
    if (pressed === "h") return guess.show(), true;
    const name = classOfKey(pressed, known.classes, event.shiftKey);
    if (name !== null) return event.repeat || (choose(name), true);
    return panelKey(pressed);
  }

  /** The last counts may come after the last item went. */
  function showEnd() {
    if (shown === null && stage.querySelector(".empty .main") && isAllAnswered()) stage.replaceChildren(finished());
  }

  const endings = [on("queue", show), on("labels", showEnd), on("project", showEnd), () => clearTimeout(hinting), panel.end, guidelines.end];
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

