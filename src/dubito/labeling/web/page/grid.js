// A screen of items with the same predicted class. The user marks the exceptions: Enter labels all other items, and
// choosing a class labels the marked ones. Exceptions without a label come next in the label view. Without a model, the
// user marks items and chooses their class.

import { request } from "./api.js";
import { classLabel } from "./classes.js";
import { button, h, kbd, userText, visibleText, isolated } from "./dom.js";
import { state, on, onClassChange, emit } from "./state.js";
import { renderBrief, describe } from "./item.js";
import { classOfKey, keyOf, moveFocus } from "./keys.js";
import { showNotice, announce, showError } from "./notices.js";
import { rememberLabeled, sendMany, undoScreen } from "./outbox.js";
import * as queue from "./queue.js";
import { formatNumber, plural } from "./format.js";

const setAside = new Set();

/** The number of items that fill the screen with complete rows. */
function screenful(tiles) {
  const style = getComputedStyle(tiles);
  const columns = style.gridTemplateColumns.split(" ");
  const height = Number.parseFloat(style.gridAutoRows) || Number.parseFloat(columns[0]) || 130;
  const row = height + (Number.parseFloat(style.rowGap) || 10);
  const rows = Math.floor((innerHeight - tiles.getBoundingClientRect().top - scrollY - 90) / row);
  return columns.length * Math.min(12, Math.max(2, rows));
}

export function makeGridView(view) {
  let chosen = null;
  let items = [];
  let busy = false;
  let isGuessed = false;
  let lastRequest = 0;

  const groups = h("ul", { class: "groups", role: "list" });
  const heading = h("h2", { class: "question" });
  const tiles = h("ul", { class: `tiles${state.project.kind === "pictures" ? "" : " is-text"}`, role: "list" });
  const commitButton = button("", labelOthers, { class: "main" });
  const hintLine = h("p", { class: "quiet", role: "status" });
  const foot = h("div", { class: "acts foot" }, button(["Undo ", kbd("Backspace")], undo), hintLine, commitButton);
  view.replaceChildren(h("div", { class: "gridding" }, groups, heading, tiles, foot));

  async function load(name = chosen) {
    const most = screenful(tiles);
    const query = new URLSearchParams({ annotator: state.annotator, count: Math.min(64, most + setAside.size) });
    if (name !== null) query.set("class", name);
    lastRequest += 1;
    const thisRequest = lastRequest;
    const answer = await request(`/api/grid?${query}`);
    if (thisRequest !== lastRequest) return;
    isGuessed = answer.groups.length > 0;
    chosen = isGuessed ? answer.class ?? name : null;
    items = answer.items.filter((item) => !setAside.has(item.row)).slice(0, most);
    drawGroups(answer.groups);
    groups.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    drawTiles(answer.waiting);
  }

  function drawGroups(counted) {
    const sizes = new Map(counted.map((group) => [group.class, group.items]));
    groups.replaceChildren(
      ...state.classes.map((name) => {
        const size = isGuessed ? h("span", { class: "number" }, formatNumber(sizes.get(name) ?? 0)) : null;
        return h(
          "li",
          null,
          button(
            [...classLabel(name, keyOf(name)), size],
            () => chooseClass(name),
            { class: "class", "aria-pressed": String(name === chosen) },
          ),
        );
      }),
    );
  }

  function drawTiles(waiting) {
    if (isGuessed) heading.replaceChildren("The model takes all of these for ", userText(chosen, { class: "said" }), ". Mark those that are not.");
    else heading.replaceChildren("Mark items of one class, then choose the class.");
    tiles.classList.toggle("is-picking", !isGuessed);
    tiles.replaceChildren(...items.map(tile));
    if (items.length === 0) tiles.replaceChildren(h(
      "li",
      { class: "empty" },
      waiting ?? "No item is left that the model takes for this class. Choose another.",
    ));
    drawButtons();
  }

  function tile(item) {
    const node = button(
      renderBrief(item, 256),
      () => mark(node),
      { class: "tile", "aria-pressed": "false", "aria-label": isGuessed ? `${describe(item)}: not of this class` : describe(item), title: visibleText(item.id) },
    );
    // A picture that cannot be shown is marked as an exception; the user can change that.
    node.addEventListener("error", () => isGuessed && node.getAttribute("aria-pressed") === "false" && mark(node), true);
    return h("li", null, node);
  }

  function mark(node) {
    node.setAttribute("aria-pressed", String(node.getAttribute("aria-pressed") !== "true"));
    drawButtons();
  }

  function marked() {
    return items.filter((_, place) => tiles.children[place]?.firstChild.getAttribute("aria-pressed") === "true");
  }

  function drawButtons() {
    const rest = items.length - marked().length;
    const hint = `${formatNumber(items.length - rest)} marked: choose ${isGuessed ? "a class for them, too" : "their class"}`;
    hintLine.textContent = rest < items.length ? hint : "";
    commitButton.replaceChildren(
      rest === items.length ? `All ${formatNumber(rest)} are ` : `The other ${formatNumber(rest)} are `,
      userText(chosen ?? ""),
      " ",
      kbd("Enter"),
    );
    commitButton.disabled = rest === 0 || chosen === null;
    commitButton.hidden = items.length === 0 || !isGuessed;
  }

  function labelOthers() {
    if (commitButton.disabled || commitButton.hidden) return;
    const odd = marked();
    save(chosen, items.filter((item) => !odd.includes(item)), odd);
  }

  /** Labels the marked items, or shows the items predicted as this class if none is marked. */
  function chooseClass(name) {
    const given = marked();
    if (given.length) return save(name, given, []);
    if (!isGuessed) return showNotice("Mark items first: click them, or move with the arrows and press Space.");
    return load(name).then(() => announce(`${isolated(name)}: ${plural(items.length, "item")}`), showError);
  }

  async function save(name, given, odd) {
    if (busy) return;
    busy = true;
    commitButton.setAttribute("aria-busy", "true");
    try {
      const labels = given.map((item) => ({ row: item.row, class: name, guess_seen: isGuessed }));
      const answer = await sendMany(labels, `${plural(given.length, "label")} “${isolated(name)}”`);
      queue.drop(given.map((item) => item.row));
      rememberLabeled(given.map((item) => item.row), answer.events);
      for (const item of odd) {
        setAside.add(item.row);
        queue.putFirst(item);
      }
      emit("labels", { labeled: answer.labeled });
      const aside = odd.length ? ` ${plural(odd.length, "odd one comes", "odd ones come")} first under Label.` : "";
      showNotice(`Saved ${plural(given.length, "label")} “${isolated(name)}”.${aside}`);
      await load();
    } catch (error) {
      showError(error);
    } finally {
      busy = false;
      commitButton.removeAttribute("aria-busy");
    }
  }

  /** Describes what was undone. A single item is shown next in the label view, a whole screen here again. */
  function describeUndo(items) {
    const [item] = items;
    if (items.length > 1) {
      queue.allowAgain(items.map((each) => each.row));
      return `Undone: all ${formatNumber(items.length)} of the last screen.`;
    }
    if (item.label) return `Undone: the label is ${isolated(item.label)} again.`;
    queue.putFirst({ ...item, undone: true });
    return "Undone: that item comes first under Label.";
  }

  async function undo() {
    if (busy) return;
    busy = true;
    try {
      const items = await undoScreen();
      showNotice(describeUndo(items));
      if (items.length > 1) await load();
    } catch (error) {
      showError(error);
    } finally {
      busy = false;
    }
  }

  function onKey(pressed, event) {
    if (moveFocus(tiles, pressed)) return true;
    const isFree = event.target === document.body || event.target.matches("main, .tile");
    if (pressed === "Enter" && isFree) return event.repeat || (labelOthers(), true);
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) chooseClass(name);
    return true;
  }

  load().catch((error) => {
    showError(error);
    tiles.replaceChildren(h("li", { class: "empty" }, error.message));
  });
  const cleanups = [
    on("round", () => items.length === 0 && load().catch(showError)),
    onClassChange(() => load(state.classes.includes(chosen) ? chosen : null).catch(showError)),
  ];
  return { onKey, end: () => cleanups.forEach((end) => end()) };
}
