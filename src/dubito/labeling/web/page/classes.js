// The classes as buttons with their keys, a search field if there are many, and a form to add a class.

import { request } from "./api.js";
import { button, h, kbd, userText, visibleText, isolated } from "./dom.js";
import { openClasses } from "./edit-classes.js";
import { state, setProject, on } from "./state.js";
import { keyOf, keyLabel } from "./keys.js";
import { showNotice, showError } from "./notices.js";
import { send } from "./outbox.js";

const FINDER_ABOVE = 12;
const WIDE_ABOVE = 16;

/** Whether there are enough classes for a search field. */
export function hasFinder() {
  return state.classes.length > FINDER_ABOVE;
}

export async function refreshProject() {
  setProject(await request("/api/project"));
}

/** The contents of a class's button: its key and its name, or only the name if that is the key. */
export function classLabel(name, pressed) {
  return pressed && pressed !== name.toLowerCase() ? [kbd(keyLabel(pressed, name, state.classes)), userText(name)] : [userText(name)];
}

async function addClass(field) {
  const name = field.value.trim();
  if (!name || field.readOnly) return;
  if (state.classes.includes(name)) {
    showNotice(`There is a class ${isolated(name)} already.`, "wrong");
    return;
  }
  field.readOnly = true;
  try {
    await send("/api/classes", { name }, `The class ${isolated(name)}`);
    field.value = "";
    await refreshProject();
    const named = keyOf(name);
    showNotice(named ? `Added ${isolated(name)}: its key is ${keyLabel(named, name, state.classes)}.` : `Added ${isolated(name)}. Find it with /.`);
    field.blur();
  } catch (error) {
    showError(error);
  } finally {
    field.readOnly = false;
  }
}

function blurOnEscape(event) {
  if (event.key === "Escape") event.target.blur();
}

function addClassForm() {
  const field = h(
    "input",
    {
      id: "new-class",
      maxlength: "200",
      autocomplete: "off",
      placeholder: "Add a class",
      dir: "auto",
      onkeydown: blurOnEscape,
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
    h("button", { type: "submit" }, "Add ", kbd("+")),
  );
}

function findClassField(choose, list) {
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
    blurOnEscape(event);
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
  const find = findClassField(choose, list);
  const node = h("section", { class: "panel", "aria-label": "Classes" }, find, list, addClassForm(), button("Edit classes", openClasses, { class: "link" }));
  const draw = () => {
    find.hidden = !hasFinder();
    // Only the first class decides, and long names get their own rows, so that adding a class does not move the others.
    const isShort = state.classes.length > 0 && state.classes[0].length === 1 && keyOf(state.classes[0]) === state.classes[0].toLowerCase();
    const isWide = (name) => name.length > (isShort ? 2 : WIDE_ABOVE);
    list.classList.toggle("is-short", isShort);
    list.replaceChildren(
      ...state.classes.map((name) => {
        const node = h(
          "li",
          { class: isWide(name) ? "is-wide" : null },
          button(classLabel(name, keyOf(name)), () => choose(name), { class: "class", title: visibleText(name) }),
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
