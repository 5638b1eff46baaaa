// The dialogs: keys, export, and the annotator's name.

import { request } from "./api.js";
import { hasFinder } from "./classes.js";
import { button, byId, h, kbd, userText, visibleText } from "./dom.js";
import { state, emit } from "./state.js";
import { COMMANDS, keyOf, keyLabel, switchSingleKeys, areSingleKeysOn } from "./keys.js";
import { formatNumber, percent, plural } from "./format.js";

const FIND_ROW = ["/", "Find a class among many"];
const KEY_SHEETS = [
  ["Everywhere", [...COMMANDS.map(([name, meaning]) => [name.toUpperCase(), meaning]), ["?", "These keys"]]],
  [
    "Label",
    [
      ["Space", "Skip the item"],
      ["Backspace", "Undo, as often as you like"],
      ["↑ ↓", "Zoom in and out; with Shift, move the picture"],
      ["+", "Add a class"],
      FIND_ROW,
    ],
  ],
  [
    "Grid",
    [
      ["← → ↑ ↓", "Move"],
      ["Space", "Mark an item"],
      ["1-9", "Label the marked items, or show a class"],
      ["Enter", "All others are of this class"],
      ["Backspace", "Undo, a whole screen at once"],
    ],
  ],
  [
    "Items",
    [
      ["← → ↑ ↓", "Move"],
      ["Space", "Select"],
      ["1-9", "Label the selected items"],
      ["Enter", "Open"],
      ["PageDown", "Next page"],
      ["Backspace", "Undo, all that were labeled together"],
    ],
  ],
  [
    "Review",
    [
      ["↑ ↓", "Move"],
      ["Enter", "Keep the label"],
      ["1-9", "Change it to that class"],
      ["Backspace", "Undo: the label is as it was"],
    ],
  ],
];
const NO_CLASS_TEXT = "There is no class yet: press + in the Label view to add one.";
const SINGLE_KEYS_TEXT = "Single keys act. Switch this off if you speak to your computer, or press keys by accident.";

const FORMATS = [
  ["csv", "CSV", "for spreadsheets and pandas; cells that look like formulas are made text"],
  ["jsonl", "JSON lines", "one label a line"],
  ["parquet", "Parquet", "with types, for large pools"],
  ["label-studio", "Label Studio JSON", "tasks with annotations"],
  ["json-min", "Label Studio JSON-MIN", "one flat record an item"],
  ["prodigy", "Prodigy JSONL", "accepted answers"],
  ["doccano", "doccano JSONL", "text and label"],
];

export function openDialog(title, ...children) {
  const before = document.activeElement;
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title" },
    h(
      "div",
      { class: "heading" },
      h("h2", { id: "dialog-title" }, title),
      button("Close", () => dialog.close(), { class: "link" }),
    ),
    ...children,
  );
  dialog.addEventListener("close", () => {
    if (dialog.contains(byId("notices"))) document.body.append(byId("notices"));
    dialog.remove();
    before?.focus?.();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function keyRow(name, meaning) {
  return h("div", null, h("dt", null, name.split(" ").map((each) => kbd(each))), h("dd", null, meaning));
}

function classRows() {
  const withKey = state.classes.filter(keyOf);
  return withKey.map((name) => keyRow(keyLabel(keyOf(name), name, state.classes), userText(name)));
}

function renderSheet([title, rows]) {
  const shownRows = rows.filter((row) => row !== FIND_ROW || hasFinder());
  return h("section", null, h("h3", null, title), h("dl", { class: "keys" }, shownRows.map(([name, meaning]) => keyRow(name, meaning))));
}

export function openKeys() {
  const nWithoutKey = state.classes.length - state.classes.filter(keyOf).length;
  const withoutKeyText = `${plural(nWithoutKey, "class has", "classes have")} no key: press / and type a part of the name.`;
  const checkbox = h("input", { type: "checkbox", id: "single-keys" });
  checkbox.checked = areSingleKeysOn();
  checkbox.addEventListener("change", () => switchSingleKeys(checkbox.checked));
  const rows = classRows();
  const classes = rows.length ? h("dl", { class: "keys" }, rows) : h("p", { class: "quiet" }, NO_CLASS_TEXT);
  openDialog(
    "Keys",
    h(
      "div",
      { class: "columns" },
      KEY_SHEETS.map(renderSheet),
      h("section", { class: "may-break" }, h("h3", null, "Classes"), classes, nWithoutKey > 0 && h("p", { class: "quiet" }, withoutKeyText)),
    ),
    h("p", { class: "switch" }, checkbox, h("label", { for: "single-keys" }, SINGLE_KEYS_TEXT)),
  ).classList.add("is-wide");
}

export function openExport() {
  openDialog(
    "Export labels",
    h("p", { class: "quiet" }, `${plural(state.project.labeled, "label")} so far. Skipped items are no labels.`),
    h(
      "ul",
      { class: "formats", role: "list" },
      FORMATS.map(([format, name, use]) => h(
        "li",
        null,
        h("a", { href: `/api/export?format=${format}`, download: "" }, name),
        h("span", { class: "quiet" }, use),
      )),
    ),
    h("p", { class: "quiet" }, "Folders by class, for training and testing: ", h("code", null, `dubito export ${visibleText(state.project.name)}.dubito --to folders --test-share 0.2 -o labeled/`)),
  );
}

function peopleTable(people) {
  const rows = people.map((each) => h(
    "tr",
    null,
    h("th", { scope: "row" }, userText(each.name)),
    h("td", null, formatNumber(each.labels)),
    h("td", null, formatNumber(each.skipped)),
  ));
  return h(
    "table",
    { class: "people" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, "Annotator"),
        h("th", { scope: "col" }, "Labels"),
        h("th", { scope: "col" }, "Skipped"),
      ),
    ),
    h("tbody", null, rows),
  );
}

function agreementText(overlap, people) {
  if (!overlap?.items) return "No item has labels of two people yet.";
  const statistic = people.filter((each) => each.labels > 0).length === 2 ? "Cohen's" : "Fleiss'";
  const kappa = overlap.kappa === null ? "" : ` (${statistic} kappa ${overlap.kappa.toFixed(2)})`;
  return `On ${plural(overlap.items, "item")} that several people labeled they agree in ${percent(overlap.agree)}${kappa}.`;
}

export function openAnnotator() {
  const field = h(
    "input",
    { id: "who", value: state.annotator, maxlength: "100", autocomplete: "nickname", required: true, dir: "auto" },
  );
  const people = h("div", { class: "others" });
  const form = h(
    "form",
    { class: "who" },
    h("label", { for: "who" }, "Your name, as it stands beside your labels"),
    h("div", { class: "acts" }, field, h("button", { type: "submit", class: "main" }, "Save")),
  );
  const dialog = openDialog("Who is labeling", form, people);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (!name) return;
    dialog.close();
    if (name !== state.annotator) emit("annotator", name);
  });
  field.select();
  request("/api/annotators").then(
    (answer) => people.replaceChildren(...(answer.annotators.length ? [
      peopleTable(answer.annotators),
      h("p", { class: "quiet" }, agreementText(answer.overlap, answer.annotators)),
    ] : [])),
    (error) => people.replaceChildren(h("p", { class: "quiet" }, error.message)),
  );
}
