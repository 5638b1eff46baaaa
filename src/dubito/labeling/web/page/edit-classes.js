// The dialog that changes classes: order, keys, names, merging and removing, with undo.

import { request } from "./api.js";
import { refreshProject } from "./classes.js";
import { openDialog } from "./dialogs.js";
import { button, h, userText, visibleText, isolated } from "./dom.js";
import { plural } from "./format.js";
import { showNotice, showError } from "./notices.js";
import { send } from "./outbox.js";
import { state, onClassChange } from "./state.js";

const HELP = "Labels follow a class that is renamed or merged. Removing a class removes its labels, too; its key becomes free.";

function describeChange({ kind, annotator, class: name, new_name: other }) {
  const who = isolated(annotator);
  if (kind === "rename") return `${who} renamed ${isolated(name)} to ${isolated(other)}.`;
  if (kind === "merge") return `${who} merged ${isolated(name)} into ${isolated(other)}.`;
  return `${who} removed ${isolated(name)}.`;
}

export function openClasses() {
  const list = h("ul", { class: "edit-classes", role: "list" });
  const lastChange = h("p", { class: "last-change" });
  const body = h("div", { class: "changing" }, lastChange, list, h("p", { class: "quiet" }, HELP));
  let openedClass = null;
  let busy = false;

  async function load() {
    draw(await request("/api/classes"));
  }

  /** Runs one change at a time, and shows the classes as they are afterwards. */
  async function change(act, sentence) {
    if (busy) return;
    busy = true;
    try {
      await act();
      openedClass = null;
      if (sentence) showNotice(sentence);
    } catch (error) {
      showError(error);
    }
    busy = false;
    await Promise.all([load(), refreshProject()]).catch(showError);
  }

  function post(kind, given, sentence) {
    const what = `The change of the class ${isolated(given.class ?? "")}`;
    return change(() => send("/api/classes/change", { annotator: state.annotator, kind, ...given }, what), sentence);
  }

  function patch(given) {
    return change(() => request("/api/project", { method: "PATCH", body: given }));
  }

  function draw({ classes, last_change: undoable }) {
    lastChange.hidden = undoable === null;
    if (undoable) {
      lastChange.replaceChildren(
        h("span", { class: "quiet" }, describeChange(undoable)),
        " ",
        button("Undo", () => post("undo", { number: undoable.number }, "Undone.")),
      );
    }
    const names = classes.map((each) => each.class);
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    list.replaceChildren(...classes.map((each, index) => row(each, index, names)));
    if (focused) [...list.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    if (classes.length === 0) list.replaceChildren(h("li", { class: "quiet" }, "There is no class yet: press + in the Label view to add one."));
  }

  function row({ class: name, key, labels }, index, names) {
    const keyField = h("input", {
      class: "key",
      value: key === null ? "" : key.toUpperCase(),
      maxlength: "1",
      autocomplete: "off",
      "aria-label": `Key of ${isolated(name)}`,
      onfocus: (event) => event.target.select(),
      onchange: (event) => {
        const pressed = event.target.value.trim().toLowerCase();
        if (pressed) patch({ keys: { [name]: pressed } });
        else load().catch(showError);
      },
    });
    const move = (step) => {
      const order = [...names];
      order.splice(index + step, 0, ...order.splice(index, 1));
      return patch({ classes: order });
    };
    const changeButton = h("button", {
      type: "button",
      "aria-expanded": String(openedClass === name),
      "aria-label": `Change ${isolated(name)}`,
      onclick: () => {
        openedClass = openedClass === name ? null : name;
        load().catch(showError);
      },
    }, "Change");
    return h(
      "li",
      null,
      h(
        "div",
        { class: "line" },
        keyField,
        userText(name, { class: "said" }),
        h("span", { class: "quiet" }, plural(labels, "label")),
        h("button", { type: "button", disabled: index === 0, "aria-label": `Move ${isolated(name)} up`, onclick: () => move(-1) }, "↑"),
        h("button", { type: "button", disabled: index === names.length - 1, "aria-label": `Move ${isolated(name)} down`, onclick: () => move(1) }, "↓"),
        changeButton,
      ),
      openedClass === name && form(name, labels, names),
    );
  }

  function form(name, labels, names) {
    const field = h("input", { id: "class-name", value: name, maxlength: "200", autocomplete: "off", dir: "auto" });
    const others = names.filter((each) => each !== name);
    const select = h(
      "select",
      { id: "merge-into" },
      others.map((each, number) => h("option", { value: String(number) }, visibleText(each))),
    );
    const rename = (event) => {
      event.preventDefault();
      const other = field.value.trim();
      if (!other || other === name) return;
      post("rename", { class: name, new_name: other }, `${isolated(name)} is called ${isolated(other)} now.`);
    };
    const merge = () => {
      const other = others[Number(select.value)];
      post("merge", { class: name, new_name: other }, `${plural(labels, "label")} ${labels === 1 ? "is" : "are"} ${isolated(other)} now.`);
    };
    return h(
      "div",
      { class: "class-form" },
      h(
        "form",
        { onsubmit: rename },
        h("label", { for: "class-name" }, "Name"),
        field,
        h("button", { type: "submit" }, "Rename"),
      ),
      others.length > 0 && h(
        "div",
        { class: "merging" },
        h("label", { for: "merge-into" }, "Merge into"),
        select,
        button("Merge", merge),
      ),
      button(
        labels ? `Remove it and its ${plural(labels, "label")}` : "Remove it",
        () => post("remove", { class: name }, `Removed ${isolated(name)}.`),
        { class: "danger" },
      ),
    );
  }

  const dialog = openDialog("Classes", body);
  dialog.addEventListener("close", onClassChange(() => load().catch(showError)));
  load().catch((error) => body.replaceChildren(h("p", { class: "quiet" }, error.message)));
}
