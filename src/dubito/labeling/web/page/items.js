// All items, a page at a time: filters, search and order. Select some and label them together, or open one.

import { ask } from "./api.js";
import { classFace } from "./classes.js";
import { openCloseup } from "./closeup.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { state, on, emit } from "./state.js";
import { brief, described, nearCopiesOf, similarTo, whole } from "./item.js";
import { classOfKey, keyOf } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { rememberLabeled, sendMany, undoScreen } from "./outbox.js";
import * as queue from "./queue.js";
import { count, percent, some } from "./format.js";

const PAGE = 60;
const PAUSE = 250;
const STARTS = 12;
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
const SURE = [
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
  let asked = 0;
  let busy = false;
  let typing = 0;
  let last = null;
  const selected = new Set();

  const search = h("input", {
    id: "search-items",
    type: "search",
    autocomplete: "off",
    placeholder: "Search names and texts",
    value: query.text ?? "",
    dir: "auto",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => change("text", search.value.trim()), PAUSE);
    },
  });
  const about = h("input", {
    id: "describe",
    type: "search",
    autocomplete: "off",
    placeholder: state.project.kind === "pictures" ? "Describe a picture" : "Describe a text",
    value: query.about ?? "",
    dir: "auto",
  });
  const filtering = h("div", { class: "filters" });
  const found = h("p", { class: "found", role: "status" });
  const all = button("Select all on this page", selectAll, { class: "link" });
  const like = h("div", { class: "like" });
  const noting = h("span", { class: "quiet" });
  const tiles = h("ul", { class: `tiles listed${state.project.kind === "pictures" ? "" : " is-text"}`, role: "list" });
  const pager = h("div", { class: "acts pager" });
  const acts = h("div", { class: "acts chosen-acts" });
  view.replaceChildren(h(
    "div",
    { class: "listing" },
    h(
      "search",
      { class: "finder" },
      h("label", { class: "unseen", for: "search-items" }, "Search names and texts"),
      search,
      filtering,
    ),
    describing(about),
    like,
    h("div", { class: "acts summary" }, found, all),
    tiles,
    h("div", { class: "foot" }, pager, acts),
  ));

  function change(name, value) {
    if (value) query[name] = value;
    else delete query[name];
    offset = 0;
    const text = new URLSearchParams(query).toString();
    history.replaceState(null, "", `#items${text && `?${text}`}`);
    load().catch(wrong);
  }

  function choice(name, label, options) {
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
    const { annotators } = await ask("/api/annotators");
    const names = (first, values) => [["", first], ...values.map((name) => [name, plain(name)])];
    const sort = !isRanked() ? SORT : [["similar", "Most similar"], ...SORT];
    filtering.replaceChildren(
      choice("show", "Show", SHOW),
      choice("class", "Class", names("Any class", state.classes)),
      choice("annotator", "Annotator", names("Any annotator", annotators.map((each) => each.name))),
      choice("guess", "Predicted class", names("Any prediction", state.classes)),
      choice("sure", "Confidence of the prediction", SURE),
      choice("sort", "Sort", sort),
    );
  }

  function isRanked() {
    return query.like !== undefined || Boolean(query.about);
  }

  async function drawLike() {
    like.hidden = !isRanked();
    if (like.hidden) return;
    const every = button("Show all items", () => (location.hash = "items"), { class: "link" });
    if (query.about) return like.replaceChildren(
      h("p", null, h("span", { class: "quiet" }, "The closest first to "), own(query.about, { class: "said" }), " ", noting),
      every,
    );
    const item = await ask(`/api/items/${query.like}`);
    like.replaceChildren(
      brief(item, 160),
      h("p", null, h("span", { class: "quiet" }, "The most similar first to "), own(item.id, { class: "said" })),
      choice("within", "Distance", WITHIN),
      every,
    );
  }

  function address() {
    const { sure, ...given } = query;
    const [low, high] = (sure || "0-1").split("-");
    return `/api/items?${new URLSearchParams({ ...given, low, high, offset, count: PAGE })}`;
  }

  async function load() {
    asked += 1;
    const mine = asked;
    tiles.setAttribute("aria-busy", "true");
    const answer = await ask(address(), { seconds: isRanked() ? 300 : 30 }).finally(() => tiles.removeAttribute("aria-busy"));
    if (mine !== asked) return;
    ({ items, total } = answer);
    noting.textContent = answer.note ?? "";
    selected.clear();
    // Near-copies mostly get one label for all: they are selected already.
    if (query.within && total > 1) for (const item of items) if (item.label === null) selected.add(item.row);
    last = null;
    draw();
  }

  function draw() {
    tiles.replaceChildren(...items.map(tile));
    if (items.length === 0) tiles.replaceChildren(h("li", { class: "empty" }, "No item matches these filters."));
    const range = items.length < total ? `${count(offset + 1)} to ${count(offset + items.length)} of ` : "";
    const isAlone = query.within && total === 1 && items[0].row === Number(query.like);
    found.textContent = isAlone ? "No other item is that close." : `${range}${some(total, "item")}`;
    all.hidden = items.length === 0;
    pager.replaceChildren(
      button("Previous", () => turn(-1), { disabled: offset === 0 }),
      button("Next", () => turn(1), { disabled: offset + items.length >= total }),
    );
    pager.hidden = total <= PAGE;
    drawActs();
  }

  function turn(pages) {
    const next = offset + pages * PAGE;
    if (next < 0 || next >= total) return;
    offset = next;
    load().then(() => {
      scrollTo({ top: 0 });
      say(found.textContent);
    }, wrong);
  }

  function tile(item, at) {
    const node = button(
      brief(item, 256),
      (event) => select(at, event.shiftKey),
      { class: "tile", "aria-pressed": String(selected.has(item.row)), title: plain(item.id) },
    );
    const opening = button("⤢", () => open(at), { class: "open", "aria-label": `Open ${plain(item.id)}`, title: "Open" });
    const line = h("p", { class: "tag" });
    drawTag(item, node, line);
    return h("li", null, node, opening, line);
  }

  function drawTag(item, node, line) {
    const guess = item.guess === null ? null : h(
      "span",
      { class: "quiet" },
      item.label === null && !item.skipped ? "model: " : "",
      own(item.guess),
      ` ${percent(item.probability)}`,
    );
    const label = item.label === null ? null : own(item.label, { class: "said" });
    const standing = label ?? (item.skipped ? h("span", { class: "quiet" }, "skipped") : guess ? "" : h("span", { class: "quiet" }, "unlabeled"));
    line.replaceChildren(standing, guess ?? "");
    const said = item.label === null ? item.skipped ? "skipped" : "unlabeled" : `labeled ${plain(item.label)}`;
    node.setAttribute("aria-label", `${described(item)}: ${said}`);
  }

  function redraw(at) {
    const [node, , line] = tiles.children[at].children;
    drawTag(items[at], node, line);
    node.setAttribute("aria-pressed", String(selected.has(items[at].row)));
  }

  /** With Shift, everything from the last selected item to this one. */
  function select(at, isRange) {
    const from = isRange && last !== null ? last : at;
    const isOn = from !== at || !selected.has(items[at].row);
    for (let each = Math.min(from, at); each <= Math.max(from, at); each += 1) {
      if (isOn) selected.add(items[each].row);
      else selected.delete(items[each].row);
      redraw(each);
    }
    last = at;
    drawActs();
  }

  function selectAll() {
    const isOn = selected.size < items.length;
    selected.clear();
    if (isOn) for (const item of items) selected.add(item.row);
    items.forEach((_, at) => redraw(at));
    drawActs();
  }

  function drawActs() {
    acts.hidden = selected.size === 0;
    all.textContent = selected.size && selected.size === items.length ? "Select none" : "Select all on this page";
    if (acts.hidden) return;
    acts.replaceChildren(
      h("strong", null, `${count(selected.size)} selected`),
      h(
        "ul",
        { class: "groups", role: "list" },
        state.classes.map((name) => h("li", null, button(classFace(name, keyOf(name)), () => assign(name), { class: "class" }))),
      ),
      button("Skip", () => assign(null)),
      button("Label one by one", () => oneByOne().catch(wrong)),
    );
  }

  function chosen() {
    const focused = [...tiles.children].findIndex((node) => node.contains(document.activeElement));
    if (selected.size) return items.map((_, at) => at).filter((at) => selected.has(items[at].row));
    return focused >= 0 && items[focused] ? [focused] : [];
  }

  async function assign(name, places = chosen()) {
    if (busy) return;
    if (places.length === 0) return notice("Select items first: click them, or move with the arrows.");
    busy = true;
    tiles.setAttribute("aria-busy", "true");
    const given = places.map((at) => items[at]);
    try {
      const what = name === null ? `Skipping ${some(given.length, "item")}` : `${some(given.length, "label")} “${quoted(name)}”`;
      const answer = await sendMany(given.map((item) => label(item, name)), what);
      const rows = given.map((item) => item.row);
      queue.drop(rows);
      rememberLabeled(rows, answer.events);
      for (const at of places) items[at] = await answered(items[at], name);
      for (const [at, item] of items.entries()) if (item.copies && !places.includes(at)) items[at] = { ...item, ...(await ask(`/api/items/${item.row}`)) };
      selected.clear();
      items.forEach((_, at) => redraw(at));
      drawActs();
      emit("labels", { labeled: answer.labeled });
      notice(name === null ? `Skipped ${some(given.length, "item")}.` : `${some(given.length, "item is", "items are")} ${quoted(name)} now.`);
    } catch (error) {
      wrong(error);
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
      notice(undone.length > 1 ? `Undone: ${count(undone.length)} labels.` : `Undone: the last answer on ${quoted(undone[0].id)}.`);
      await load();
    }).catch(wrong).finally(() => (busy = false));
  }

  async function oneByOne() {
    for (const item of await Promise.all(chosen().reverse().map((at) => whole(items[at])))) queue.putFirst(item);
    location.hash = "label";
  }

  function open(at) {
    openCloseup({
      count: () => items.length,
      item: (place) => items[place],
      assign: (place, name) => assign(name, [place]),
      like: (place) => (location.hash = similarTo(items[place].row)),
      near: (place) => (location.hash = nearCopiesOf(items[place].row)),
      close: (place) => tiles.children[place]?.firstChild.focus(),
    }, at);
  }

  function move(step) {
    const nodes = [...tiles.querySelectorAll(".tile")];
    if (!nodes.length) return;
    const place = nodes.indexOf(document.activeElement);
    nodes[place < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, place + step))].focus();
  }

  function onKey(pressed, event) {
    const columns = getComputedStyle(tiles).gridTemplateColumns.split(" ").length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    if (pressed in steps) return move(steps[pressed]), true;
    if (pressed === "PageDown" || pressed === "PageUp") return turn(pressed === "PageDown" ? 1 : -1), true;
    if (pressed === "/") return search.focus(), true;
    if (pressed === "Enter" && event.target.matches(".tile")) return open(chosen().at(0) === undefined ? 0 : focusedPlace()), true;
    if (pressed === "Escape" && selected.size) return selectNone(), true;
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) assign(name);
    return true;
  }

  function focusedPlace() {
    return [...tiles.children].findIndex((node) => node.contains(document.activeElement));
  }

  function selectNone() {
    selected.clear();
    items.forEach((_, at) => redraw(at));
    drawActs();
  }

  const fail = (error) => {
    found.textContent = "";
    tiles.replaceChildren(h("li", { class: "empty" }, error.message));
  };
  all.hidden = true;
  found.textContent = isRanked() ? "Looking for similar items." : "Loading the items.";
  Promise.all([load(), drawFilters(), drawLike()]).catch(fail);
  let changed = state.project.class_event;
  const followClasses = (project) => {
    if (project.class_event === changed) return;
    changed = project.class_event;
    drawFilters().then(load).catch(wrong);
  };
  const ends = [on("project", followClasses), () => clearTimeout(typing)];
  return { onKey, end: () => ends.forEach((end) => end()) };
}

/** A search by description, with the names of the classes as a start; null if the embedder does not understand texts. */
function describing(field) {
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
    state.classes.slice(0, STARTS).map((name) => button(own(name), () => look(asPhrase(name)), { class: "start" })),
  );
}

/** A label that overrides the answers of others counts as a review, since it is given in sight of them. */
function label(item, name) {
  const isReview = name !== null && Object.entries(item.answers ?? {}).some(([who, other]) => who !== state.annotator && other !== null);
  return { row: item.row, class: name, guess_seen: item.guess !== null, review: isReview };
}

/** The item as it is after an answer. */
async function answered(item, name) {
  if (name === null) return { ...item, ...(await ask(`/api/items/${item.row}`)) };
  return { ...item, label: name, by: state.annotator, skipped: false, answers: { ...item.answers, [state.annotator]: name } };
}
