// The dialog that changes classes: order, keys, names, merging and removing, with undo.

import { ask } from "./api.js";
import { refreshProject } from "./classes.js";
import { open } from "./dialogs.js";
import { button, h, own, plain, quoted } from "./dom.js";
import { some } from "./format.js";
import { notice, wrong } from "./notices.js";
import { send } from "./outbox.js";
import { state, on } from "./state.js";

const HELP = "Labels follow a class that is renamed or merged. Removing a class removes its labels, too; its key becomes free.";

function described({ kind, annotator, class: name, new_name: other }) {
  const who = quoted(annotator);
  if (kind === "rename") return `${who} renamed ${quoted(name)} to ${quoted(other)}.`;
  if (kind === "merge") return `${who} merged ${quoted(name)} into ${quoted(other)}.`;
  return `${who} removed ${quoted(name)}.`;
}

export function openClasses() {
  const list = h("ul", { class: "edit-classes", role: "list" });
  const last = h("p", { class: "last-change" });
  const body = h("div", { class: "changing" }, last, list, h("p", { class: "quiet" }, HELP));
  let opened = null;
  let busy = false;

  async function load() {
    draw(await ask("/api/classes"));
  }

  /** Runs one change at a time, and shows the classes as they are afterwards. */
  async function change(act, sentence) {
    if (busy) return;
    busy = true;
    try {
      await act();
      opened = null;
      if (sentence) notice(sentence);
    } catch (error) {
      wrong(error);
    }
    busy = false;
    await Promise.all([load(), refreshProject()]).catch(wrong);
  }

  function post(kind, given, sentence) {
    const what = `The change of the class ${quoted(given.class ?? "")}`;
    return change(() => send("/api/classes/change", { annotator: state.annotator, kind, ...given }, what), sentence);
  }

  function patch(given) {
    return change(() => ask("/api/project", { method: "PATCH", body: given }));
  }

  function draw({ classes, last_change: undoable }) {
    last.hidden = undoable === null;
    if (undoable) {
      last.replaceChildren(
        h("span", { class: "quiet" }, described(undoable)),
        " ",
        button("Undo", () => post("undo", { number: undoable.number }, "Undone.")),
      );
    }
    const names = classes.map((each) => each.class);
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    list.replaceChildren(...classes.map((each, at) => row(each, at, names)));
    if (focused) [...list.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === focused)?.focus();
    if (classes.length === 0) list.replaceChildren(h("li", { class: "quiet" }, "There is no class yet: press + in the Label view to add one."));
  }

  function row({ class: name, key, labels }, at, names) {
    const keyField = h("input", {
      class: "key",
      value: key === null ? "" : key.toUpperCase(),
      maxlength: "1",
      autocomplete: "off",
      "aria-label": `Key of ${quoted(name)}`,
      onfocus: (event) => event.target.select(),
      onchange: (event) => {
        const pressed = event.target.value.trim().toLowerCase();
        if (pressed) patch({ keys: { [name]: pressed } });
        else load().catch(wrong);
      },
    });
    const moved = (step) => {
      const order = [...names];
      order.splice(at + step, 0, ...order.splice(at, 1));
      return patch({ classes: order });
    };
    const changing = h("button", {
      type: "button",
      "aria-expanded": String(opened === name),
      "aria-label": `Change ${quoted(name)}`,
      onclick: () => {
        opened = opened === name ? null : name;
        load().catch(wrong);
      },
    }, "Change");
    return h(
      "li",
      null,
      h(
        "div",
        { class: "line" },
        keyField,
        own(name, { class: "said" }),
        h("span", { class: "quiet" }, some(labels, "label")),
        h("button", { type: "button", disabled: at === 0, "aria-label": `Move ${quoted(name)} up`, onclick: () => moved(-1) }, "↑"),
        h("button", { type: "button", disabled: at === names.length - 1, "aria-label": `Move ${quoted(name)} down`, onclick: () => moved(1) }, "↓"),
        changing,
      ),
      opened === name && form(name, labels, names),
    );
  }

  function form(name, labels, names) {
    const field = h("input", { id: "class-name", value: name, maxlength: "200", autocomplete: "off", dir: "auto" });
    const others = names.filter((each) => each !== name);
    const select = h(
      "select",
      { id: "merge-into" },
      others.map((each, number) => h("option", { value: String(number) }, plain(each))),
    );
    const rename = (event) => {
      event.preventDefault();
      const other = field.value.trim();
      if (!other || other === name) return;
      post("rename", { class: name, new_name: other }, `${quoted(name)} is called ${quoted(other)} now.`);
    };
    const merge = () => {
      const other = others[Number(select.value)];
      post("merge", { class: name, new_name: other }, `${some(labels, "label")} ${labels === 1 ? "is" : "are"} ${quoted(other)} now.`);
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
        labels ? `Remove it and its ${some(labels, "label")}` : "Remove it",
        () => post("remove", { class: name }, `Removed ${quoted(name)}.`),
        { class: "danger" },
      ),
    );
  }

  const dialog = open("Classes", body);
  let shown = state.project.class_event;
  const end = on("project", (project) => {
    if (project.class_event === shown) return;
    shown = project.class_event;
    load().catch(wrong);
  });
  dialog.addEventListener("close", end);
  load().catch((error) => body.replaceChildren(h("p", { class: "quiet" }, error.message)));
}
