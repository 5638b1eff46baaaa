// Labeling one item at a time. Keys work once the item is visible; the next item is shown once the label is stored.

import { request } from "./api.js";
import { classPanel, panelKey } from "./classes.js";
import { openExport } from "./dialogs.js";
import { button, h, kbd, userText, visibleText, isolated } from "./dom.js";
import { state, setProject, on, emit } from "./state.js";
import { renderColumns, describeCopies, describe, similarUrl } from "./item.js";
import { classOfKey, isControl } from "./keys.js";
import { showNotice, announce, showError } from "./notices.js";
import { send, undoOne } from "./outbox.js";
import * as queue from "./queue.js";
import { formatNumber, percent, plural, PICK_REASONS } from "./format.js";
import { makeZoom, zoomKey } from "./zoom.js";

const SLOW_MS = 150;
const HINT_MS = 3000;

export function makeLabelView(view) {
  let shown = null;
  let shownAt = 0;
  let busy = false;
  let last = null;
  let visibility = "coming";
  let hintTimer = 0;
  let zoomer = null;

  const stage = h("div", { class: "stage" });
  const caption = h("p", { class: "caption" });
  const reason = h("span", { class: "quiet" });
  const details = h("div", { class: "details" });
  const lastAnswer = h("p", { class: "trail", "aria-live": "off" });
  const guess = guessBox();
  const panel = classPanel(choose);
  const guidelines = guidelinesBox();
  const undoButton = button(["Undo ", kbd("Backspace")], undo, { class: "undo" });
  const skipButton = button(["Skip ", kbd("Space")], skip, { class: "skip" });
  const work = h(
    "section",
    { class: "work", "aria-label": "Item" },
    caption,
    stage,
    details,
    h("div", { class: "acts" }, undoButton, lastAnswer, skipButton),
  );
  view.replaceChildren(h(
    "div",
    { class: "labeling" },
    work,
    h("div", { class: "side" }, panel.node, guess.node, guidelines.node),
  ));

  function show() {
    shown = queue.firstEntry();
    panel.mark(null, "chosen");
    skipButton.firstChild.textContent = shown?.item.label ? "Leave it " : "Skip ";
    guess.ask(shown?.item ?? null);
    work.classList.toggle("is-empty", shown === null);
    details.replaceChildren(...[shown && renderColumns(shown.item)].filter(Boolean));
    if (shown === null) {
      caption.replaceChildren();
      stage.replaceChildren(nothingToShow());
      return;
    }
    stage.replaceChildren(shown.node);
    stage.scrollTop = 0;
    zoomer = null;
    caption.replaceChildren(
      userText(shown.item.id, { class: "id", title: visibleText(shown.item.id) }),
      h("a", { href: similarUrl(shown.item.row) }, "More like this"),
      reason,
    );
    drawReason();
    waitUntilVisible(shown);
    announce(`Next: ${describe(shown.item)}`);
    emit("shown", shown.item);
  }

  function drawReason() {
    if (shown) reason.textContent = pickReason(shown.item);
  }

  /** Enables labeling once the item is visible; an item that cannot be shown needs a confirmation first. */
  function waitUntilVisible(entry) {
    visibility = "coming";
    shownAt = performance.now();
    work.classList.add("is-coming");
    entry.ready.then((isSeen) => requestAnimationFrame(() => {
      if (shown !== entry) return;
      visibility = isSeen ? "seen" : "broken";
      shownAt = performance.now();
      work.classList.remove("is-coming");
      if (!isSeen) entry.node.replaceChildren(entry.node.firstChild, labelAnywayButton());
      else if (entry.item.picture) zoomer = entry.zoomer ??= makeZoom(entry.node);
    }));
  }

  function labelAnywayButton() {
    const node = button("Label it anyway", () => {
      visibility = "anyway";
      node.replaceWith(h("p", { class: "quiet" }, "The next class that you choose is its label."));
    });
    return node;
  }

  function isAllAnswered() {
    const { labeled, skipped, items } = state.project;
    return labeled + skipped >= items;
  }

  function allAnswered() {
    const { labeled, skipped } = state.project;
    const aside = skipped ? ` ${plural(skipped, "item was", "items were")} skipped.` : "";
    const sentence = skipped ? `Every item is answered: ${plural(labeled, "label")}.` : `${plural(labeled, "item is", "items are")} labeled, all there are.`;
    return h(
      "div",
      { class: "empty is-finished" },
      h("p", null, `${sentence}${aside}`),
      h(
        "div",
        { class: "acts" },
        button("Export the labels", openExport, { class: "main" }),
        button(["Review doubtful labels ", kbd("R")], () => (location.hash = "review")),
      ),
    );
  }

  function nothingToShow() {
    if (queue.isLoading()) return h("p", { class: "empty" }, "Asking for the next items.");
    if (isAllAnswered()) return allAnswered();
    const sentence = queue.emptyReason() ?? "Nothing is left to label in this round.";
    return h(
      "div",
      { class: "empty" },
      h("p", null, sentence),
      button(["Train and pick the next round ", kbd("T")], () => emit("train"), { class: "main" }),
    );
  }

  function pickReason(item) {
    const { done, of } = state.project.progress;
    const undone = item.label ? `undone: its label is ${isolated(item.label)} again` : "undone: label it again";
    const parts = [
      item.undone ? undone : PICK_REASONS[item.why],
      item.label && !item.undone ? `labeled ${isolated(item.label)} so far` : null,
      describeCopies(item),
      `next round: ${formatNumber(done)} of ${plural(of, "label")}`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  /** Ignores further actions until this one is complete. */
  async function runAction(act) {
    if (busy) return hint("Too fast: the last one is still on its way, so this did nothing.");
    busy = true;
    const slow = setTimeout(() => work.classList.add("is-saving"), SLOW_MS);
    try {
      await act();
    } catch (error) {
      panel.mark(null, "chosen");
      showError(error);
    } finally {
      clearTimeout(slow);
      work.classList.remove("is-saving");
      busy = false;
    }
  }

  function choose(name) {
    const entry = shown;
    if (!entry) return;
    if (name !== null && !busy && visibility === "coming") return hint("Too fast: this item is not on the screen yet.");
    if (name !== null && !busy && visibility === "broken") {
      return showNotice("Not labeled: this picture cannot be shown. Skip it, or choose “Label it anyway” first.");
    }
    runAction(async () => {
      panel.mark(name, "chosen");
      const { item } = entry;
      const seconds = Math.round(performance.now() - shownAt) / 1000;
      const body = { annotator: state.annotator, row: item.row, class: name, guess_seen: guess.seen(), seconds };
      if (Number.isInteger(item.round)) body.round = item.round;
      const answer = await send("/api/labels", body, name === null ? "Skipping this item" : `Your label “${isolated(name)}”`);
      queue.removeAnswered(item.row);
      last = { id: item.id, name };
      emit("labels", { labeled: answer.labeled });
      drawLastAnswer();
      emit("queue");
    });
  }

  /** Skipping a labeled item keeps its label. */
  function skip() {
    if (busy || !shown?.item.label) return choose(null);
    hint(`Left as it is: ${isolated(shown.item.label)}.`);
    queue.drop([shown.item.row]);
    show();
  }

  function undo() {
    runAction(async () => {
      const item = await undoOne();
      queue.putFirst({ ...item, undone: true });
      last = null;
      drawLastAnswer();
      show();
      announce(`Undone. ${describe(item)}`);
    });
  }

  /** Briefly shows why an action had no effect, in place of the last answer. */
  function hint(sentence) {
    clearTimeout(hintTimer);
    lastAnswer.replaceChildren(sentence);
    lastAnswer.classList.add("is-hint");
    announce(sentence);
    hintTimer = setTimeout(() => {
      hintTimer = 0;
      drawLastAnswer();
    }, HINT_MS);
  }

  function drawLastAnswer() {
    if (hintTimer) return;
    lastAnswer.classList.remove("is-hint");
    lastAnswer.replaceChildren();
    if (last) lastAnswer.append("Last: ", last.name === null ? "skipped" : userText(last.name, { class: "said" }));
  }

  function onKey(pressed, event) {
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    if (pressed === " ") return !isControl(event.target) && (event.repeat || (skip(), true));
    if (pressed === "h") return guess.show(), true;
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name !== null) return event.repeat || (choose(name), true);
    return panelKey(pressed) || (event.target.matches(":not([tabindex='0'])") && zoomKey(zoomer, pressed, event));
  }

  /** The counts may arrive only after the last item was labeled. */
  function showEnd() {
    if (shown === null && stage.querySelector(".empty .main") && isAllAnswered()) stage.replaceChildren(allAnswered());
  }

  const cleanups = [on("queue", show), on("labels", showEnd), on("labels", drawReason), on("round", drawReason), on("project", showEnd), () => clearTimeout(hintTimer), panel.end, guidelines.end];
  if (queue.firstEntry()) show();
  else {
    stage.replaceChildren(h("p", { class: "empty" }, "Asking for the first items."));
    queue.refill().then(show, (error) => showNotice(error.message, "wrong"));
  }
  return { onKey, end: () => cleanups.forEach((end) => end()) };
}

/** Shows an item next, in the label view. */
export async function openInLabelView(row) {
  queue.putFirst(await request(`/api/items/${row}`));
  location.hash = "label";
}

// The model's prediction is hidden until it is requested, so that it does not influence annotators; the label records
// whether it was seen.

const MAX_RANKED = 3;

function rankedList(classes) {
  return h(
    "ol",
    { class: "guesses", role: "list" },
    classes.slice(0, MAX_RANKED).map((each) => {
      const bar = h("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(each.probability));
      return h("li", null, userText(each.class), h("span", { class: "number" }, percent(each.probability)), bar);
    }),
  );
}

function guessBox() {
  let item = null;
  let seen = false;
  const askButton = button(["Show the model's guess ", kbd("H")], show, { class: "asking" });
  const message = h("div", { class: "message" });
  const node = h("section", { class: "guess", "aria-label": "The model's guess" }, askButton, message);

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
      const answer = await request(`/api/items/${wanted.row}/guess`);
      if (item !== wanted) return;
      seen = true;
      askButton.hidden = true;
      message.replaceChildren(h("p", { class: "quiet" }, "The model's guess"), rankedList(answer.ranked));
      const [top] = answer.ranked;
      if (top) announce(`The model guesses ${isolated(top.class)}, ${percent(top.probability)}.`);
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
      askButton.hidden = next === null;
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
  const editButton = button("Edit", () => edit(true), { class: "link", "aria-label": "Edit the guidelines" });
  const fold = h("details", { class: "guidelines" }, h("summary", null, "Guidelines"), text, editButton, form);
  fold.open = !matchMedia("(max-width: 52rem)").matches;

  function draw() {
    const { guidelines } = state.project;
    text.textContent = guidelines || "None yet. Write down what counts as what: it is shown to every annotator.";
    text.classList.toggle("quiet", !guidelines);
  }

  function edit(open) {
    form.hidden = !open;
    text.hidden = open;
    editButton.hidden = open;
    if (!open) return;
    field.value = state.project.guidelines ?? "";
    field.focus();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await request("/api/project", { method: "PATCH", body: { guidelines: field.value } });
      setProject({ ...state.project, guidelines: field.value });
      edit(false);
      showNotice("The guidelines are saved.");
    } catch (error) {
      showError(error);
    }
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") edit(false);
  });

  draw();
  return { node: fold, end: on("project", draw) };
}
