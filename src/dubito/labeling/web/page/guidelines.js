// What the annotators have agreed on: plain text, shown beside the classes, edited in place.

import { ask } from "./api.js";
import { button, h } from "./dom.js";
import { known, learnProject, on } from "./hub.js";
import { notice, wrong } from "./notices.js";

export function guidelinesBox() {
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
    const { guidelines } = known.project;
    text.textContent = guidelines || "None yet. Write down what counts as what: it is shown to every annotator.";
    text.classList.toggle("quiet", !guidelines);
  }

  function edit(open) {
    form.hidden = !open;
    text.hidden = open;
    editing.hidden = open;
    if (!open) return;
    field.value = known.project.guidelines ?? "";
    field.focus();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("/api/project", { method: "PATCH", body: { guidelines: field.value } });
      learnProject({ ...known.project, guidelines: field.value });
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
