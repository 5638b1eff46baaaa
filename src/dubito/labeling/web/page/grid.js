// A screen of items that the model takes for one class: mark the exceptions, and Enter labels all others; a class labels
// the marked ones. Exceptions without a label are shown next in the label view. Without a model: mark some and label them.

import { ask } from "./api.js";
import { classFace } from "./classes.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { state, on, emit } from "./state.js";
import { brief, described } from "./item.js";
import { classOfKey, keyOf } from "./keys.js";
import { notice, say, wrong } from "./notices.js";
import { rememberLabeled, sendMany, undoScreen } from "./outbox.js";
import * as queue from "./queue.js";
import { count, some } from "./format.js";

const setAside = new Set();

/** The number of items that fill complete rows of the screen. */
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
  let guessed = false;
  let asked = 0;

  const groups = h("ul", { class: "groups", role: "list" });
  const heading = h("h2", { class: "question" });
  const tiles = h("ul", { class: `tiles${state.project.kind === "pictures" ? "" : " is-text"}`, role: "list" });
  const commit = button("", commitRest, { class: "main" });
  const hinting = h("p", { class: "quiet", role: "status" });
  const foot = h("div", { class: "acts foot" }, button(["Undo ", key("Backspace")], undo), hinting, commit);
  view.replaceChildren(h("div", { class: "gridding" }, groups, heading, tiles, foot));

  async function load(name = chosen) {
    const most = screenful(tiles);
    const query = new URLSearchParams({ annotator: state.annotator, count: Math.min(64, most + setAside.size) });
    if (name !== null) query.set("class", name);
    asked += 1;
    const mine = asked;
    const answer = await ask(`/api/grid?${query}`);
    if (mine !== asked) return;
    guessed = answer.groups.length > 0;
    chosen = guessed ? answer.class ?? name : null;
    items = answer.items.filter((item) => !setAside.has(item.row)).slice(0, most);
    drawGroups(answer.groups);
    groups.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    drawTiles(answer.waiting);
  }

  function drawGroups(counted) {
    const sizes = new Map(counted.map((group) => [group.class, group.items]));
    groups.replaceChildren(
      ...state.classes.map((name) => {
        const size = guessed ? h("span", { class: "number" }, count(sizes.get(name) ?? 0)) : null;
        return h(
          "li",
          null,
          button(
            [...classFace(name, keyOf(name)), size],
            () => take(name),
            { class: "class", "aria-pressed": String(name === chosen) },
          ),
        );
      }),
    );
  }

  function drawTiles(waiting) {
    if (guessed) heading.replaceChildren("The model takes all of these for ", own(chosen, { class: "said" }), ". Mark those that are not.");
    else heading.replaceChildren("Mark items of one class, then choose the class.");
    tiles.classList.toggle("is-picking", !guessed);
    tiles.replaceChildren(...items.map(tile));
    if (items.length === 0) tiles.replaceChildren(h(
      "li",
      { class: "empty" },
      waiting ?? "No item is left that the model takes for this class. Choose another.",
    ));
    drawCommit();
  }

  function tile(item) {
    const node = button(
      brief(item, 256),
      () => mark(node),
      { class: "tile", "aria-pressed": "false", "aria-label": guessed ? `${described(item)}: not of this class` : described(item), title: plain(item.id) },
    );
    // A picture that cannot be shown is marked as an exception; the user can change that.
    node.addEventListener("error", () => guessed && node.getAttribute("aria-pressed") === "false" && mark(node), true);
    return h("li", null, node);
  }

  function mark(node) {
    node.setAttribute("aria-pressed", String(node.getAttribute("aria-pressed") !== "true"));
    drawCommit();
  }

  function marked() {
    return items.filter((_, place) => tiles.children[place]?.firstChild.getAttribute("aria-pressed") === "true");
  }

  function drawCommit() {
    const rest = items.length - marked().length;
    const hint = `${count(items.length - rest)} marked: choose ${guessed ? "a class for them, too" : "their class"}`;
    hinting.textContent = rest < items.length ? hint : "";
    commit.replaceChildren(
      rest === items.length ? `All ${count(rest)} are ` : `The other ${count(rest)} are `,
      own(chosen ?? ""),
      " ",
      key("Enter"),
    );
    commit.disabled = rest === 0 || chosen === null;
    commit.hidden = items.length === 0 || !guessed;
  }

  function commitRest() {
    if (commit.disabled || commit.hidden) return;
    const odd = marked();
    save(chosen, items.filter((item) => !odd.includes(item)), odd);
  }

  /** A class: the label of the marked items, or else the class to show. */
  function take(name) {
    const given = marked();
    if (given.length) return save(name, given, []);
    if (!guessed) return notice("Mark items first: click them, or move with the arrows and press Space.");
    return load(name).then(() => say(`${quoted(name)}: ${some(items.length, "item")}`), wrong);
  }

  async function save(name, given, odd) {
    if (busy) return;
    busy = true;
    commit.setAttribute("aria-busy", "true");
    try {
      const labels = given.map((item) => ({ row: item.row, class: name, guess_seen: guessed }));
      const answer = await sendMany(labels, `${some(given.length, "label")} “${quoted(name)}”`);
      queue.drop(given.map((item) => item.row));
      rememberLabeled(given.map((item) => item.row), answer.events);
      for (const item of odd) {
        setAside.add(item.row);
        queue.putFirst(item);
      }
      emit("labels", { labeled: answer.labeled });
      const aside = odd.length ? ` ${some(odd.length, "odd one comes", "odd ones come")} first under Label.` : "";
      notice(`Saved ${some(given.length, "label")} “${quoted(name)}”.${aside}`);
      await load();
    } catch (error) {
      wrong(error);
    } finally {
      busy = false;
      commit.removeAttribute("aria-busy");
    }
  }

  /** A single item is shown next in the label view; a whole screen is shown here again. */
  function undone(items) {
    const [item] = items;
    if (items.length > 1) {
      queue.allowAgain(items.map((each) => each.row));
      return `Undone: all ${count(items.length)} of the last screen.`;
    }
    if (item.label) return `Undone: the label is ${quoted(item.label)} again.`;
    queue.putFirst({ ...item, undone: true });
    return "Undone: that item comes first under Label.";
  }

  async function undo() {
    if (busy) return;
    busy = true;
    try {
      const items = await undoScreen();
      notice(undone(items));
      if (items.length > 1) await load();
    } catch (error) {
      wrong(error);
    } finally {
      busy = false;
    }
  }

  function move(step) {
    const nodes = [...tiles.querySelectorAll(".tile")];
    if (!nodes.length) return;
    const place = nodes.indexOf(document.activeElement);
    nodes[place < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, place + step))].focus();
  }

  function columns() {
    return getComputedStyle(tiles).gridTemplateColumns.split(" ").length;
  }

  function onKey(pressed, event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (pressed in steps) return move(steps[pressed]), true;
    const isFree = event.target === document.body || event.target.matches("main, .tile");
    if (pressed === "Enter" && isFree) return event.repeat || (commitRest(), true);
    if (pressed === "Backspace") return event.repeat || (undo(), true);
    const name = classOfKey(pressed, state.classes, event.shiftKey);
    if (name === null) return false;
    if (!event.repeat) take(name);
    return true;
  }

  load().catch((error) => {
    wrong(error);
    tiles.replaceChildren(h("li", { class: "empty" }, error.message));
  });
  let changed = state.project.class_event;
  /** After a change of the classes, the items of a class that exists. */
  function followClasses(project) {
    if (project.class_event === changed) return;
    changed = project.class_event;
    load(state.classes.includes(chosen) ? chosen : null).catch(wrong);
  }
  const ends = [on("round", () => items.length === 0 && load().catch(wrong)), on("project", followClasses)];
  return { onKey, end: () => ends.forEach((end) => end()) };
}
