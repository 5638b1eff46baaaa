// Labeling one item at a time. Keys work once the item is visible; the next item is shown once the label is stored.

import { ask } from "./api.js";
import { classPanel, panelKey } from "./classes.js";
import { openExport } from "./dialogs.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { state, setProject, on, emit } from "./state.js";
import { beside, copiesOf, described, similarTo } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { send, undoOne } from "./outbox.js";
import * as queue from "./queue.js";
import { count, percent, some, WHY } from "./format.js";
import { makeZoom, zoomKey } from "./zoom.js";

const SLOW = 150;
const HINT = 3000;

export function makeLabelView(view) {
  let shown = null;
  let since = 0;
  let busy = false;
  let last = null;
  let sight = "coming";
  let hinting = 0;
  let zoomer = null;

  const stage = h("div", { class: "stage" });
  const caption = h("p", { class: "caption" });
  const reason = h("span", { class: "quiet" });
  const said = h("div", { class: "details" });
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
    zoomer = null;
    caption.replaceChildren(
      own(shown.item.id, { class: "id", title: plain(shown.item.id) }),
      h("a", { href: similarTo(shown.item.row) }, "More like this"),
      reason,
    );
    drawReason();
    look(shown);
    say(`Next: ${described(shown.item)}`);
    emit("shown", shown.item);
  }

  function drawReason() {
    if (shown) reason.textContent = pickReason(shown.item);
  }

  /** An item cannot be labeled before it is visible; if it cannot be shown, only after confirmation. */
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
      else if (entry.item.picture) zoomer = entry.zoomer ??= makeZoom(entry.node);
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
    const { labeled, skipped, items } = state.project;
    return labeled + skipped >= items;
  }

  function finished() {
    const { labeled, skipped } = state.project;
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
      button(["Train and pick the next round ", key("T")], () => emit("train"), { class: "main" }),
    );
  }

  function pickReason(item) {
    const { done, of } = state.project.progress;
    const undone = item.label ? `undone: its label is ${quoted(item.label)} again` : "undone: label it again";
    const parts = [
      item.undone ? undone : WHY[item.why],
      item.label && !item.undone ? `labeled ${quoted(item.label)} so far` : null,
      copiesOf(item),
      `next round: ${count(done)} of ${some(of, "label")}`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  /** Ignores further actions until this one is complete. */
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
      return notice("Not labeled: this picture cannot be shown. Skip it, or choose “Label it anyway” first.");
    }
    once(async () => {
      panel.mark(name, "chosen");
      const { item } = entry;
      const seconds = Math.round(performance.now() - since) / 1000;
      const body = { annotator: state.annotator, row: item.row, class: name, guess_seen: guess.seen(), seconds };
      if (Number.isInteger(item.round)) body.round = item.round;
      const answer = await send("/api/labels", body, name === null ? "Skipping this item" : `Your label “${quoted(name)}”`);
      queue.finish(item.row);
      last = { id: item.id, name };
      emit("labels", { labeled: answer.labeled });
      drawTrail();
      emit("queue");
    });
  }

  /** Skipping a labeled item keeps its label. */
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

  /** Briefly shows, instead of the last label, why an action had no effect. */
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
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name !== null) return event.repeat || (choose(name), true);
    return panelKey(pressed) || (event.target.matches(":not([tabindex='0'])") && zoomKey(zoomer, pressed, event));
  }

  /** The last counts may arrive after the last item was labeled. */
  function showEnd() {
    if (shown === null && stage.querySelector(".empty .main") && isAllAnswered()) stage.replaceChildren(finished());
  }

  const endings = [on("queue", show), on("labels", showEnd), on("labels", drawReason), on("round", drawReason), on("project", showEnd), () => clearTimeout(hinting), panel.end, guidelines.end];
  if (queue.first()) show();
  else {
    stage.replaceChildren(h("p", { class: "empty" }, "Asking for the first items."));
    queue.refill().then(show, (error) => notice(error.message, "wrong"));
  }
  return { onKey, end: () => endings.forEach((end) => end()) };
}

/** Shows an item next, in the label view. */
export async function labelThis(row) {
  queue.putFirst(await ask(`/api/items/${row}`));
  location.hash = "label";
}

// The model's prediction: hidden until it is requested, to avoid influencing annotators. The label records the request.

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

function guessBox() {
  let item = null;
  let seen = false;
  const asking = button(["Show the model's guess ", key("H")], show, { class: "asking" });
  const message = h("div", { class: "message" });
  const node = h("section", { class: "guess", "aria-label": "The model's guess" }, asking, message);

  async function show() {
    if (!item || seen) return;
    const wanted = item;
    if (!state.project.model.labels) {
      message.replaceChildren(h(
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
      message.replaceChildren(h("p", { class: "quiet" }, "The model's guess"), ranked(answer.ranked));
      const [top] = answer.ranked;
      if (top) say(`The model guesses ${quoted(top.class)}, ${percent(top.probability)}.`);
    } catch (error) {
      if (item === wanted) message.replaceChildren(h("p", { class: "quiet" }, error.message));
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
      message.replaceChildren();
    },
  };
}

// The guidelines: plain text, shown next to the classes and edited in place.

function guidelinesBox() {
  const text = h(
    "p",
    { class: "agreed", dir: "auto", tabindex: "0", role: "group", "aria-label": "Text of the guidelines" },
  );
  const field = h("textarea", { id: "guidelines-text", rows: "8", dir: "auto", maxlength: "20000" });
  const form = h(
    "form",
    { hidden: true },
    h("label", { class: "unseen", for: "guidelines-text" }, "Guidelines, plain text"),
    field,
    h(
      "div",
      { class: "acts" },
      h("button", { type: "submit", class: "main" }, "Save"),
      button("Cancel", () => edit(false)),
    ),
  );
  const editing = button("Edit", () => edit(true), { class: "link", "aria-label": "Edit the guidelines" });
  const fold = h("details", { class: "guidelines" }, h("summary", null, "Guidelines"), text, editing, form);
  fold.open = !matchMedia("(max-width: 52rem)").matches;

  function draw() {
    const { guidelines } = state.project;
    text.textContent = guidelines || "None yet. Write down what counts as what: it is shown to every annotator.";
    text.classList.toggle("quiet", !guidelines);
  }

  function edit(open) {
    form.hidden = !open;
    text.hidden = open;
    editing.hidden = open;
    if (!open) return;
    field.value = state.project.guidelines ?? "";
    field.focus();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("/api/project", { method: "PATCH", body: { guidelines: field.value } });
      setProject({ ...state.project, guidelines: field.value });
      edit(false);
      notice("The guidelines are saved.");
    } catch (error) {
      wrong(error);
    }
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") edit(false);
  });

  draw();
  return { node: fold, end: on("project", draw) };
}
