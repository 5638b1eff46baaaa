// All items, a page at a time: filters, search and order. Select some and label them together, or open one.

import { request } from "./api.js";
import { classLabel } from "./classes.js";
import { openCloseup } from "./closeup.js";
import { button, h, userText, visibleText, isolated } from "./dom.js";
import { state, onClassChange, emit } from "./state.js";
import { renderBrief, describe, nearCopiesUrl, similarUrl, loadWhole } from "./item.js";
import { classOfKey, keyOf, moveFocus } from "./keys.js";
import { showNotice, announce, showError } from "./notices.js";
import { rememberLabeled, sendMany, undoScreen } from "./outbox.js";
import * as queue from "./queue.js";
import { formatNumber, percent, plural } from "./format.js";

const PAGE_SIZE = 60;
const TYPING_MS = 250;
const MAX_SUGGESTIONS = 12;
const SHOW = [
  ["all", "All items"],
  ["unlabeled", "Unlabeled"],
  ["labeled", "Labeled"],
  ["skipped", "Skipped"],
  ["disagreement", "Disagreement"],
  ["copies", "Exact copies"],
];
/** Shares of the median distance. */
const WITHIN = [
  ["", "Any distance"],
  ["0.05", "Within 5%"],
  ["0.1", "Within 10%"],
  ["0.2", "Within 20%"],
  ["0.4", "Within 40%"],
];
const CONFIDENCE = [
  ["", "Any confidence"],
  ["0-0.5", "Below 50%"],
  ["0.5-0.8", "50 to 80%"],
  ["0.8-0.95", "80 to 95%"],
  ["0.95-1", "95% and more"],
];
const SORT = [
  ["order", "Pool order"],
  ["name", "Name"],
  ["class", "Class"],
  ["newest", "Latest answer"],
  ["least-sure", "Least confident"],
  ["most-sure", "Most confident"],
];

/** `filters` are the URLSearchParams of the view's address. */
export function makeItemsView(view, filters) {
  const query = Object.fromEntries(filters);
  let items = [];
  let total = 0;
  let offset = 0;
  let lastRequest = 0;
  let busy = false;
  let typingTimer = 0;
  let lastSelected = null;
  const selected = new Set();

  const search = h("input", {
    id: "search-items",
    type: "search",
    autocomplete: "off",
    placeholder: "Search names and texts",
    value: query.text ?? "",
    dir: "auto",
    oninput: () => {
      clearTimeout(typingTimer);
      typingTimer = setTimeout(() => change("text", search.value.trim()), TYPING_MS);
    },
  });
  const description = h("input", {
    id: "describe",
    type: "search",
    autocomplete: "off",
    placeholder: state.project.kind === "pictures" ? "Describe a picture" : "Describe a text",
    value: query.about ?? "",
    dir: "auto",
  });
  const filterBar = h("div", { class: "filters" });
  const countLine = h("p", { class: "found", role: "status" });
  const selectAllButton = button("Select all on this page", selectAll, { class: "link" });
  const similarBar = h("div", { class: "like" });
  const noteLine = h("span", { class: "quiet" });
  const tiles = h("ul", { class: `tiles listed${state.project.kind === "pictures" ? "" : " is-text"}`, role: "list" });
  const pager = h("div", { class: "acts pager" });
  const selectionBar = h("div", { class: "acts chosen-acts" });
  view.replaceChildren(h(
    "div",
    { class: "listing" },
    h(
      "search",
      { class: "finder" },
      h("label", { class: "unseen", for: "search-items" }, "Search names and texts"),
      search,
      filterBar,
    ),
    descriptionForm(description),
    similarBar,
    h("div", { class: "acts summary" }, countLine, selectAllButton),
    tiles,
    h("div", { class: "foot" }, pager, selectionBar),
  ));

  function change(name, value) {
    if (value) query[name] = value;
    else delete query[name];
    offset = 0;
    const text = new URLSearchParams(query).toString();
    history.replaceState(null, "", `#items${text && `?${text}`}`);
    load().catch(showError);
  }

  function filterSelect(name, label, options) {
    const value = query[name] ?? options[0][0];
    return h(
      "select",
      {
        "aria-label": label,
        class: value === options[0][0] ? "" : "is-set",
        onchange: (event) => {
          event.target.classList.toggle("is-set", event.target.value !== options[0][0]);
          change(name, event.target.value === options[0][0] ? "" : event.target.value);
        },
      },
      options.map(([option, shown]) => h("option", { value: option, selected: option === value }, shown)),
    );
  }

  async function drawFilters() {
    const { annotators } = await request("/api/annotators");
    const names = (first, values) => [["", first], ...values.map((name) => [name, visibleText(name)])];
    const sort = !isRanked() ? SORT : [["similar", "Most similar"], ...SORT];
    filterBar.replaceChildren(
      filterSelect("show", "Show", SHOW),
      filterSelect("class", "Class", names("Any class", state.classes)),
      filterSelect("annotator", "Annotator", names("Any annotator", annotators.map((each) => each.name))),
      filterSelect("guess", "Predicted class", names("Any prediction", state.classes)),
      filterSelect("sure", "Confidence of the prediction", CONFIDENCE),
      filterSelect("sort", "Sort", sort),
    );
  }

  function isRanked() {
    return query.like !== undefined || Boolean(query.about);
  }

  async function drawSimilar() {
    similarBar.hidden = !isRanked();
    if (similarBar.hidden) return;
    const every = button("Show all items", () => (location.hash = "items"), { class: "link" });
    if (query.about) return similarBar.replaceChildren(
      h("p", null, h("span", { class: "quiet" }, "The closest first to "), userText(query.about, { class: "said" }), " ", noteLine),
      every,
    );
    const item = await request(`/api/items/${query.like}`);
    similarBar.replaceChildren(
      renderBrief(item, 160),
      h("p", null, h("span", { class: "quiet" }, "The most similar first to "), userText(item.id, { class: "said" })),
      filterSelect("within", "Distance", WITHIN),
      every,
    );
  }

  function address() {
    const { sure, ...others } = query;
    const [low, high] = (sure || "0-1").split("-");
    return `/api/items?${new URLSearchParams({ ...others, low, high, offset, count: PAGE_SIZE })}`;
  }

  async function load() {
    lastRequest += 1;
    const thisRequest = lastRequest;
    tiles.setAttribute("aria-busy", "true");
    const answer = await request(address(), { seconds: isRanked() ? 300 : 30 }).finally(() => tiles.removeAttribute("aria-busy"));
    if (thisRequest !== lastRequest) return;
    ({ items, total } = answer);
    noteLine.textContent = answer.note ?? "";
    selected.clear();
    // Near-copies usually get the same label, so they are preselected.
    if (query.within && total > 1) for (const item of items) if (item.label === null) selected.add(item.row);
    lastSelected = null;
    draw();
  }

  function draw() {
    tiles.replaceChildren(...items.map(tile));
    if (items.length === 0) tiles.replaceChildren(h("li", { class: "empty" }, "No item matches these filters."));
    const range = items.length < total ? `${formatNumber(offset + 1)} to ${formatNumber(offset + items.length)} of ` : "";
    const isAlone = query.within && total === 1 && items[0].row === Number(query.like);
    countLine.textContent = isAlone ? "No other item is that close." : `${range}${plural(total, "item")}`;
    selectAllButton.hidden = items.length === 0;
    pager.replaceChildren(
      button("Previous", () => turnPage(-1), { disabled: offset === 0 }),
      button("Next", () => turnPage(1), { disabled: offset + items.length >= total }),
    );
    pager.hidden = total <= PAGE_SIZE;
    drawSelection();
  }

  function turnPage(pages) {
    const next = offset + pages * PAGE_SIZE;
    if (next < 0 || next >= total) return;
    offset = next;
    load().then(() => {
      scrollTo({ top: 0 });
      announce(countLine.textContent);
    }, showError);
  }

  function tile(item, index) {
    const node = button(
      renderBrief(item, 256),
      (event) => select(index, event.shiftKey),
      { class: "tile", "aria-pressed": String(selected.has(item.row)), title: visibleText(item.id) },
    );
    const opening = button("⤢", () => openItem(index), { class: "open", "aria-label": `Open ${visibleText(item.id)}`, title: "Open" });
    const line = h("p", { class: "tag" });
    drawTag(item, node, line);
    return h("li", null, node, opening, line);
  }

  function drawTag(item, node, line) {
    const guess = item.guess === null ? null : h(
      "span",
      { class: "quiet" },
      item.label === null && !item.skipped ? "model: " : "",
      userText(item.guess),
      ` ${percent(item.probability)}`,
    );
    const label = item.label === null ? null : userText(item.label, { class: "said" });
    const standing = label ?? (item.skipped ? h("span", { class: "quiet" }, "skipped") : guess ? "" : h("span", { class: "quiet" }, "unlabeled"));
    line.replaceChildren(standing, guess ?? "");
    const said = item.label === null ? item.skipped ? "skipped" : "unlabeled" : `labeled ${visibleText(item.label)}`;
    node.setAttribute("aria-label", `${describe(item)}: ${said}`);
  }

  function redrawTile(index) {
    const [node, , line] = tiles.children[index].children;
    drawTag(items[index], node, line);
    node.setAttribute("aria-pressed", String(selected.has(items[index].row)));
  }

  /** With Shift, everything from the last selected item to this one. */
  function select(index, isRange) {
    const from = isRange && lastSelected !== null ? lastSelected : index;
    const isOn = from !== index || !selected.has(items[index].row);
    for (let each = Math.min(from, index); each <= Math.max(from, index); each += 1) {
      if (isOn) selected.add(items[each].row);
      else selected.delete(items[each].row);
      redrawTile(each);
    }
    lastSelected = index;
    drawSelection();
  }

  function selectAll() {
    const isOn = selected.size < items.length;
    selected.clear();
    if (isOn) for (const item of items) selected.add(item.row);
    items.forEach((_, index) => redrawTile(index));
    drawSelection();
  }

  function drawSelection() {
    selectionBar.hidden = selected.size === 0;
    selectAllButton.textContent = selected.size && selected.size === items.length ? "Select none" : "Select all on this page";
    if (selectionBar.hidden) return;
    selectionBar.replaceChildren(
      h("strong", null, `${formatNumber(selected.size)} selected`),
      h(
        "ul",
        { class: "groups", role: "list" },
        state.classes.map((name) => h("li", null, button(classLabel(name, keyOf(name)), () => assign(name), { class: "class" }))),
      ),
      button("Skip", () => assign(null)),
      button("Label one by one", () => oneByOne().catch(showError)),
    );
  }

  function chosenIndices() {
    const focused = focusedIndex();
    if (selected.size) return items.map((_, index) => index).filter((index) => selected.has(items[index].row));
    return focused >= 0 && items[focused] ? [focused] : [];
  }

  async function assign(name, indices = chosenIndices()) {
    if (busy) return;
    if (indices.length === 0) return showNotice("Select items first: click them, or move with the arrows.");
    busy = true;
    tiles.setAttribute("aria-busy", "true");
    const chosenItems = indices.map((index) => items[index]);
    try {
      const what = name === null ? `Skipping ${plural(chosenItems.length, "item")}` : `${plural(chosenItems.length, "label")} “${isolated(name)}”`;
      const answer = await sendMany(chosenItems.map((item) => labelOf(item, name)), what);
      const rows = chosenItems.map((item) => item.row);
      queue.drop(rows);
      rememberLabeled(rows, answer.events);
      for (const index of indices) items[index] = await withAnswer(items[index], name);
      for (const [index, item] of items.entries()) if (item.copies && !indices.includes(index)) items[index] = { ...item, ...(await request(`/api/items/${item.row}`)) };
      selected.clear();
      items.forEach((_, index) => redrawTile(index));
      drawSelection();
      emit("labels", { labeled: answer.labeled });
      showNotice(name === null ? `Skipped ${plural(chosenItems.length, "item")}.` : `${plural(chosenItems.length, "item is", "items are")} ${isolated(name)} now.`);
    } catch (error) {
      showError(error);
    } finally {
      busy = false;
      tiles.removeAttribute("aria-busy");
    }
  }

  function undo() {
    if (busy) return;
    busy = true;
    undoScreen().then(async (undone) => {
      queue.allowAgain(undone.map((item) => item.row));
      showNotice(undone.length > 1 ? `Undone: ${formatNumber(undone.length)} labels.` : `Undone: the last answer on ${isolated(undone[0].id)}.`);
      await load();
    }).catch(showError).finally(() => (busy = false));
  }

  async function oneByOne() {
    for (const item of await Promise.all(chosenIndices().reverse().map((index) => loadWhole(items[index])))) queue.putFirst(item);
    location.hash = "label";
  }

  function openItem(index) {
    openCloseup({
      count: () => items.length,
      item: (place) => items[place],
      assign: (place, name) => assign(name, [place]),
      like: (place) => (location.hash = similarUrl(items[place].row)),
      near: (place) => (location.hash = nearCopiesUrl(items[place].row)),
      close: (place) => tiles.children[place]?.firstChild.focus(),
    }, index);
  }

  function onKey(pressed, event) {
    if (moveFocus(tiles, pressed)) return true;
    if (pressed === "PageDown" || pressed === "PageUp") return turnPage(pressed === "PageDown" ? 1 : -1), true;
    if (pressed === "/") return search.focus(), true;
    if (pressed === "Enter" && event.target.matches(".tile")) return openItem(focusedIndex()), true;
    if (pressed === "Escape" && selected.size) return selectNone(), true;
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) assign(name);
    return true;
  }

  function focusedIndex() {
    return [...tiles.children].findIndex((node) => node.contains(document.activeElement));
  }

  function selectNone() {
    selected.clear();
    items.forEach((_, index) => redrawTile(index));
    drawSelection();
  }

  const showLoadError = (error) => {
    countLine.textContent = "";
    tiles.replaceChildren(h("li", { class: "empty" }, error.message));
  };
  selectAllButton.hidden = true;
  countLine.textContent = isRanked() ? "Looking for similar items." : "Loading the items.";
  Promise.all([load(), drawFilters(), drawSimilar()]).catch(showLoadError);
  const cleanups = [onClassChange(() => drawFilters().then(load).catch(showError)), () => clearTimeout(typingTimer)];
  return { onKey, end: () => cleanups.forEach((end) => end()) };
}

/** A search by description, with classes as suggestions; null if the embedder does not understand texts. */
function descriptionForm(field) {
  if (!state.project.text_search) return null;
  const look = (text) => text && (location.hash = `items?${new URLSearchParams({ about: text })}`);
  const asPhrase = (name) => (state.project.kind === "pictures" ? `a photo of ${name}` : name);
  return h(
    "form",
    {
      class: "describing",
      onsubmit: (event) => {
        event.preventDefault();
        look(field.value.trim());
      },
    },
    h("label", { class: "unseen", for: "describe" }, "Find items by a description"),
    field,
    h("button", { type: "submit" }, "Find"),
    state.classes.slice(0, MAX_SUGGESTIONS).map((name) => button(userText(name), () => look(asPhrase(name)), { class: "start" })),
  );
}

/** The label to send. It counts as a review if others have labeled the item, since the page shows their labels. */
function labelOf(item, name) {
  const isReview = name !== null && Object.entries(item.answers ?? {}).some(([who, other]) => who !== state.annotator && other !== null);
  return { row: item.row, class: name, guess_seen: item.guess !== null, review: isReview };
}

/** The item as it is after an answer. */
async function withAnswer(item, name) {
  if (name === null) return { ...item, ...(await request(`/api/items/${item.row}`)) };
  return { ...item, label: name, by: state.annotator, skipped: false, answers: { ...item.answers, [state.annotator]: name } };
}
