// Showing an item: a picture, a text or the columns of a row. Its content is inserted as text, never as markup.

import { request } from "./api.js";
import { button, h, userText, visibleText } from "./dom.js";
import { formatNumber, plural } from "./format.js";
import { state } from "./state.js";

const MAX_TEXT = 4000;
const SMALL_EDGE = 256;
const MAX_CELL = 120;
const MAX_EXCERPT = 300;

async function loadError(address) {
  try {
    const answer = await fetch(address);
    if (answer.ok) return "The browser cannot show this picture.";
    return visibleText((await answer.json()).error);
  } catch {
    return "The picture did not arrive: the server does not answer.";
  }
}

function renderPicture(item, edge) {
  const box = h("div", { class: "picture" });
  const image = h("img", { alt: `Picture ${visibleText(item.id)}`, decoding: "async", draggable: "false" });
  const ready = new Promise((resolve) => {
    image.addEventListener("error", async () => {
      const sentence = await loadError(image.src);
      box.classList.add("is-broken");
      box.replaceChildren(h("p", { class: "broken" }, sentence));
      resolve(false);
    });
    image.addEventListener("load", () => {
      box.classList.toggle("is-small", Math.max(image.naturalWidth, image.naturalHeight) <= SMALL_EDGE);
      resolve(true);
    });
  });
  image.src = `${item.picture}?edge=${edge}`;
  box.append(image);
  return { node: box, ready };
}

function renderText(item) {
  const whole = item.text ?? "";
  const body = h("p", { class: "text", dir: "auto" });
  body.textContent = whole.length > MAX_TEXT ? `${whole.slice(0, MAX_TEXT)}…` : whole || "(an empty text)";
  if (!whole) body.classList.add("quiet");
  if (whole.length <= MAX_TEXT) return h(
    "div",
    { class: "reading", tabindex: "0", role: "group", "aria-label": "Text" },
    body,
  );
  const more = button(`Show all ${formatNumber(whole.length)} characters`, () => {
    body.textContent = whole;
    more.remove();
  });
  return h("div", { class: "reading", tabindex: "0", role: "group", "aria-label": "Text" }, body, more);
}

function renderRow(item) {
  const rows = Object.entries(item.columns ?? {}).map(([name, value]) =>
    h("tr", null, h("th", { scope: "row" }, userText(name)), h("td", null, userText(value === null ? "–" : String(value)))),
  );
  return h(
    "div",
    { class: "reading", tabindex: "0", role: "group", "aria-label": "Row" },
    h("table", { class: "row" }, h("tbody", null, rows)),
  );
}

/** The element of an item, and a promise that resolves to whether it can be shown. */
export function render(item, edge = 1024) {
  if (item.picture) return renderPicture(item, edge);
  return { node: item.columns && !item.text ? renderRow(item) : renderText(item), ready: Promise.resolve(true) };
}

function renderCell(value) {
  const whole = String(value);
  const body = h("bdi", null, whole.length > MAX_CELL ? `${whole.slice(0, MAX_CELL)}…` : whole);
  if (whole.length <= MAX_CELL) return [body];
  const more = button("more", () => {
    body.textContent = whole;
    more.remove();
  }, { class: "link" });
  return [body, " ", more];
}

/** The other columns of a picture or text, in a few lines; null if there are none. */
export function renderColumns(item) {
  if (!item.picture && !item.text) return null;
  const cells = Object.entries(item.columns ?? {}).filter(([, value]) => value !== null && value !== "");
  if (cells.length === 0) return null;
  const rows = cells.map(([name, value]) => h("div", null, h("dt", null, userText(name), ":"), h("dd", null, renderCell(value))));
  return h(
    "div",
    { class: "beside", tabindex: "0", role: "group", "aria-label": "Other columns" },
    h("dl", null, rows),
  );
}

/** The short form for lists: a thumbnail, or the start of the text. */
export function renderBrief(item, edge = 160) {
  if (item.picture) return renderPicture(item, edge).node;
  const words = item.text ?? Object.entries(item.columns ?? {}).map(([name, value]) => `${name}: ${value}`).join(", ");
  const start = words.length > MAX_EXCERPT ? `${words.slice(0, MAX_EXCERPT)}…` : words;
  return h("p", { class: "excerpt", dir: "auto" }, start || "(an empty text)");
}

/** An item of a list with its whole text; lists only have the start. */
export async function loadWhole(item) {
  return item.is_cut ? { ...item, ...(await request(`/api/items/${item.row}`)), is_cut: false } : item;
}

/** The description of an item for screen readers. */
export function describe(item) {
  return item.text ? item.text.slice(0, 200) : visibleText(item.id);
}

/** The address of the list of items that are similar to one. */
export function similarUrl(row) {
  return `#items?like=${row}`;
}

/** The address of the list of an item and its near-copies, which are within a tenth of the median distance. */
export function nearCopiesUrl(row) {
  return `${similarUrl(row)}&within=0.1`;
}

/** How many exact copies an item has, and whether they get its label; null if it has none. */
export function describeCopies(item) {
  if (!item.copies) return null;
  const isShared = state.project.settings.copies === "share";
  return `${plural(item.copies, "exact copy", "exact copies")}${isShared ? ", with the same label" : ""}`;
}
