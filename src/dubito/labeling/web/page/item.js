// Showing an item: a picture, a text or the columns of a row. Its content is inserted as text, never as markup.

import { ask } from "./api.js";
import { button, h, own, plain } from "./dom.js";
import { count, some } from "./format.js";
import { state } from "./state.js";

const FOLD = 4000;
const SMALL = 256;
const CUT = 120;
const BRIEF = 300;

async function loadError(address) {
  try {
    const answer = await fetch(address);
    if (answer.ok) return "The browser cannot show this picture.";
    return plain((await answer.json()).error);
  } catch {
    return "The picture did not arrive: the server does not answer.";
  }
}

function picture(item, edge) {
  const box = h("div", { class: "picture" });
  const image = h("img", { alt: `Picture ${plain(item.id)}`, decoding: "async", draggable: "false" });
  const ready = new Promise((resolve) => {
    image.addEventListener("error", async () => {
      const sentence = await loadError(image.src);
      box.classList.add("is-broken");
      box.replaceChildren(h("p", { class: "broken" }, sentence));
      resolve(false);
    });
    image.addEventListener("load", () => {
      box.classList.toggle("is-small", Math.max(image.naturalWidth, image.naturalHeight) <= SMALL);
      resolve(true);
    });
  });
  image.src = `${item.picture}?edge=${edge}`;
  box.append(image);
  return { node: box, ready };
}

function text(item) {
  const whole = item.text ?? "";
  const body = h("p", { class: "text", dir: "auto" });
  body.textContent = whole.length > FOLD ? `${whole.slice(0, FOLD)}…` : whole || "(an empty text)";
  if (!whole) body.classList.add("quiet");
  if (whole.length <= FOLD) return h(
    "div",
    { class: "reading", tabindex: "0", role: "group", "aria-label": "Text" },
    body,
  );
  const more = button(`Show all ${count(whole.length)} characters`, () => {
    body.textContent = whole;
    more.remove();
  });
  return h("div", { class: "reading", tabindex: "0", role: "group", "aria-label": "Text" }, body, more);
}

function row(item) {
  const rows = Object.entries(item.columns ?? {}).map(([name, value]) =>
    h("tr", null, h("th", { scope: "row" }, own(name)), h("td", null, own(value === null ? "–" : String(value)))),
  );
  return h(
    "div",
    { class: "reading", tabindex: "0", role: "group", "aria-label": "Row" },
    h("table", { class: "row" }, h("tbody", null, rows)),
  );
}

/** The element of an item, and a promise of whether it can be shown. */
export function render(item, edge = 1024) {
  if (item.picture) return picture(item, edge);
  return { node: item.columns && !item.text ? row(item) : text(item), ready: Promise.resolve(true) };
}

function cell(value) {
  const whole = String(value);
  const body = h("bdi", null, whole.length > CUT ? `${whole.slice(0, CUT)}…` : whole);
  if (whole.length <= CUT) return [body];
  const more = button("more", () => {
    body.textContent = whole;
    more.remove();
  }, { class: "link" });
  return [body, " ", more];
}

/** The other columns of a picture or text, in a few lines; null if there are none. */
export function beside(item) {
  if (!item.picture && !item.text) return null;
  const said = Object.entries(item.columns ?? {}).filter(([, value]) => value !== null && value !== "");
  if (said.length === 0) return null;
  const rows = said.map(([name, value]) => h("div", null, h("dt", null, own(name), ":"), h("dd", null, cell(value))));
  return h(
    "div",
    { class: "beside", tabindex: "0", role: "group", "aria-label": "Other columns" },
    h("dl", null, rows),
  );
}

/** The short form for lists: a thumbnail, or the start of the text. */
export function brief(item, edge = 160) {
  if (item.picture) return picture(item, edge).node;
  const words = item.text ?? Object.entries(item.columns ?? {}).map(([name, value]) => `${name}: ${value}`).join(", ");
  const start = words.length > BRIEF ? `${words.slice(0, BRIEF)}…` : words;
  return h("p", { class: "excerpt", dir: "auto" }, start || "(an empty text)");
}

/** An item of a list with its whole text, of which lists have the start. */
export async function whole(item) {
  return item.is_cut ? { ...item, ...(await ask(`/api/items/${item.row}`)), is_cut: false } : item;
}

/** The description of an item for screen readers. */
export function described(item) {
  return item.text ? item.text.slice(0, 200) : plain(item.id);
}

/** The address of the list of items that are similar to one. */
export function similarTo(row) {
  return `#items?like=${row}`;
}

/** The address of the list of an item and its near-copies, those within a tenth of the median distance. */
export function nearCopiesOf(row) {
  return `${similarTo(row)}&within=0.1`;
}

/** How many exact copies an item has, and whether they get its label; null if it has none. */
export function copiesOf(item) {
  if (!item.copies) return null;
  const isShared = state.project.settings.copies === "share";
  return `${some(item.copies, "exact copy", "exact copies")}${isShared ? ", with the same label" : ""}`;
}
