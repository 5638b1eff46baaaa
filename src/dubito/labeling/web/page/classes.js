// The classes as buttons with their keys, a search field if there are many, and a form to add a class.

import { ask } from "./api.js";
import { button, h, key, own, plain, quoted } from "./dom.js";
import { openClasses } from "./edit-classes.js";
import { state, setProject, on } from "./state.js";
import { keyOf, printed } from "./keys.js";
import { notice, wrong } from "./notices.js";
import { send } from "./outbox.js";

const MANY = 12;
const LONG = 16;

/** Whether there are enough classes for a search field. */
export function hasFinder() {
  return state.classes.length > MANY;
}

export async function refreshProject() {
  setProject(await ask("/api/project"));
}

/** A class and its key; only the name if that is the key. */
export function classFace(name, pressed) {
  return pressed && pressed !== name.toLowerCase() ? [key(printed(pressed, name, state.classes)), own(name)] : [own(name)];
}

async function addClass(field) {
  const name = field.value.trim();
  if (!name || field.readOnly) return;
  if (state.classes.includes(name)) {
    notice(`There is a class ${quoted(name)} already.`, "wrong");
    return;
  }
  field.readOnly = true;
  try {
    await send("/api/classes", { name }, `The class ${quoted(name)}`);
    field.value = "";
    await refreshProject();
    const named = keyOf(name);
    notice(named ? `Added ${quoted(name)}: its key is ${printed(named, name, state.classes)}.` : `Added ${quoted(name)}. Find it with /.`);
    field.blur();
  } catch (error) {
    wrong(error);
  } finally {
    field.readOnly = false;
  }
}

function leaveOnEscape(event) {
  if (event.key === "Escape") event.target.blur();
}

function adding() {
  const field = h(
    "input",
    {
      id: "new-class",
      maxlength: "200",
      autocomplete: "off",
      placeholder: "Add a class",
      dir: "auto",
      onkeydown: leaveOnEscape,
    },
  );
  return h(
    "form",
    {
      class: "adding",
      onsubmit: (event) => {
        event.preventDefault();
        addClass(field);
      },
    },
    h("label", { class: "unseen", for: "new-class" }, "Name of a new class"),
    field,
    h("button", { type: "submit" }, "Add ", key("+")),
  );
}

function finding(choose, list) {
  const field = h(
    "input",
    { id: "find-class", type: "search", autocomplete: "off", placeholder: "Find a class   /", dir: "auto" },
  );
  const matching = () => state.classes.filter((name) => name.toLowerCase().includes(field.value.trim().toLowerCase()));
  field.addEventListener("input", () => {
    const shown = new Set(matching());
    for (const node of list.children) node.hidden = !shown.has(node.dataset.class);
  });
  field.addEventListener("keydown", (event) => {
    leaveOnEscape(event);
    if (event.key !== "Enter" || !field.value.trim() || matching().length === 0) return;
    event.preventDefault();
    const [name] = matching();
    field.value = "";
    field.dispatchEvent(new Event("input"));
    field.blur();
    choose(name);
  });
  return h(
    "div",
    { class: "finding" },
    h("label", { class: "unseen", for: "find-class" }, "Find a class by its name, Enter takes the first"),
    field,
  );
}

/** Calls `choose(name)` when a button is pressed. Follows changes of the project until `end()`. */
export function classPanel(choose) {
  const list = h("ul", { class: "classes", role: "list" });
  const find = finding(choose, list);
  const node = h("section", { class: "panel", "aria-label": "Classes" }, find, list, adding(), button("Edit classes", openClasses, { class: "link" }));
  const draw = () => {
    find.hidden = !hasFinder();
    // By the first class alone, and long names have rows of their own: adding a class does not move the others.
    const isShort = state.classes.length > 0 && state.classes[0].length === 1 && keyOf(state.classes[0]) === state.classes[0].toLowerCase();
    const isWide = (name) => name.length > (isShort ? 2 : LONG);
    list.classList.toggle("is-short", isShort);
    list.replaceChildren(
      ...state.classes.map((name) => {
        const node = h(
          "li",
          { class: isWide(name) ? "is-wide" : null },
          button(classFace(name, keyOf(name)), () => choose(name), { class: "class", title: plain(name) }),
        );
        node.dataset.class = name;
        return node;
      }),
    );
  };
  draw();
  const end = on("project", draw);
  const mark = (name, property) => {
    for (const each of list.children) each.firstChild.classList.toggle(property, each.dataset.class === name);
  };
  return { node, end, mark };
}

/** Keys of the panel that are not classes: "+" adds a class, "/" searches. */
export function panelKey(pressed) {
  const field = { "+": "new-class", "/": "find-class" }[pressed];
  const node = field && document.getElementById(field);
  if (!node || node.offsetParent === null) return false;
  node.focus();
  return true;
}
