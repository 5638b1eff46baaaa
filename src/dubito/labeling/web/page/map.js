// A map of the pool, colored by doubt, label or pick order; the lasso restricts the items that are queried.

import { request } from "./api.js";
import { refreshProject } from "./classes.js";
import { cssColor, classColor, pointColors, scaleEnds } from "./colors.js";
import { button, h, userText } from "./dom.js";
import { state, on } from "./state.js";
import { renderBrief, similarUrl } from "./item.js";
import { openInLabelView } from "./label.js";
import { showNotice, announce, showError } from "./notices.js";
import * as queue from "./queue.js";
import { makeSurface } from "./surface.js";
import { formatNumber, percent, plural } from "./format.js";

const COLORINGS = { doubt: "Doubt", label: "Label", order: "Pick order" };
const MAX_SWATCHES = 12;

export function makeMapView(view) {
  let points = null;
  let grid = null;
  let by = "doubt";
  let chosen = [];

  const card = makeItemCard();
  const surface = makeSurface({
    isReady: () => points !== null,
    size: () => (points ? Math.max(2.6, 11.5 - Math.log10(points.n) * 1.7) : 4),
    find: (x, y, reach) => (grid ? nearest(grid, x, y, reach) : -1),
    hover: card.hover,
    pick: card.pin,
    lasso: (polygon) => choose(rowsInside(points, polygon)),
  });
  const coloringField = h("fieldset", { class: "ways" }, h("legend", null, "Color"), Object.entries(COLORINGS).map(coloringOption));
  const legend = h("div", { class: "scale" });
  const slider = h("input", { type: "range", id: "upto", min: "0", max: "0", value: "0", oninput: drawPicks });
  const message = h("output", { for: "upto" });
  const picks = h("div", { class: "picks" }, h("label", { for: "upto" }, "Picks so far"), slider, message);
  const lasso = button(
    "Lasso",
    () => useLasso(lasso.getAttribute("aria-pressed") !== "true"),
    { "aria-pressed": "false" },
  );
  const tools = h(
    "div",
    { class: "acts" },
    lasso,
    button("Choose what is in view", () => points && choose(rowsInside(points, surface.corners()))),
  );
  const zoom = h(
    "div",
    { class: "zoom" },
    button("+", () => surface.zoom(1.5), { "aria-label": "Zoom in" }),
    button("−", () => surface.zoom(1 / 1.5), { "aria-label": "Zoom out" }),
    button("Fit", surface.fit),
  );
  const choiceBox = h("div", { class: "choice", role: "status" });
  const side = h(
    "div",
    { class: "side" },
    coloringField,
    legend,
    picks,
    h("section", { "aria-label": "Choose items" }, h("h2", null, "Ask about some only"), tools, choiceBox),
  );
  surface.node.append(zoom);
  view.replaceChildren(h("div", { class: "mapping" }, h("div", { class: "map-area" }, surface.node), side, card.node));

  function coloringOption([name, label]) {
    const field = h(
      "input",
      {
        type: "radio",
        name: "color",
        id: `by-${name}`,
        value: name,
        checked: name === by,
        onchange: () => ((by = name), drawColors()),
      },
    );
    return h("span", null, field, h("label", { for: `by-${name}` }, label));
  }

  function useLasso(yes) {
    lasso.setAttribute("aria-pressed", String(yes));
    surface.use(yes ? "lasso" : "move");
    if (yes) announce("Lasso: draw around the items with the pointer.");
  }

  async function load() {
    const answer = await request("/api/map", { seconds: 60 });
    if (!answer.n) {
      choiceBox.replaceChildren(h("p", { class: "quiet" }, answer.waiting ?? "There is nothing to draw yet."));
      return;
    }
    points = decode(answer);
    grid = makeGrid(points);
    surface.set(points);
    slider.max = String(points.order.length);
    slider.value = slider.max;
    drawColors();
    drawPicks();
    drawChoice();
  }

  function drawColors() {
    if (!points) return;
    surface.color(pointColors(points, by, chosen));
    legend.replaceChildren(...(scaleEnds(by) ? ramp() : swatches()));
  }

  function ramp() {
    const bar = h("span", { class: "ramp", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(90deg, ${scaleEnds(by).map(cssColor).join(", ")})`;
    if (by === "doubt" && points.doubt.every(Number.isNaN)) return [h("p", { class: "quiet" }, "Nothing is doubted yet: there is no model.")];
    return [
      h("span", null, by === "doubt" ? "sure" : "first"),
      bar,
      h("span", null, by === "doubt" ? "in doubt" : "last"),
    ];
  }

  function swatches() {
    const shown = points.classes.slice(0, MAX_SWATCHES).map((name, number) => {
      const dot = h("span", { class: "swatch", "aria-hidden": "true" });
      dot.style.background = cssColor(classColor(number));
      return h("span", { class: "entry" }, dot, userText(name));
    });
    return points.classes.length > MAX_SWATCHES ? [
      ...shown,
      h("span", { class: "quiet" }, `and ${points.classes.length - MAX_SWATCHES} more`),
    ] : shown;
  }

  function drawPicks() {
    if (!points) return;
    const upTo = Number(slider.value);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    surface.show(upTo, dark ? [240, 240, 238] : [24, 26, 30]);
    const before = points.order.length - points.covered.length;
    const covered = points.covered[upTo - before - 1];
    message.replaceChildren(
      `${formatNumber(upTo)} of ${plural(points.order.length, "pick")}`,
      covered === undefined ? "" : h("span", { class: "covered" }, `${percent(covered, 1)} covered`),
    );
  }

  function choose(rows) {
    chosen = rows;
    useLasso(false);
    drawColors();
    drawChoice();
  }

  function drawChoice() {
    const { restricted } = state.project;
    const left = points.excluded.reduce((sum, each) => sum + (each ? 1 : 0), 0);
    const parts = [];
    if (chosen.length) parts.push(
      h("p", null, h("strong", null, plural(chosen.length, "item")), " chosen."),
      h(
        "div",
        { class: "acts" },
        button("Ask only about these", () => restrict("only"), { class: "main" }),
        button("Leave these out", () => restrict("exclude")),
        button("Forget the choice", () => choose([]), { class: "link" }),
      ),
    );
    else parts.push(h(
      "p",
      { class: "quiet" },
      "Draw around a part of the map, and the next rounds ask only about it, or about all else.",
    ));
    if (left || (restricted ?? null) !== null) {
      parts.push(
        h(
          "p",
          null,
          restricted === null || restricted === undefined ? `${plural(left, "item is", "items are")} left out.` : `Only ${plural(restricted, "item")} may be asked about.`,
        ),
        button("Ask about all again", () => restrict("clear")),
      );
    }
    choiceBox.replaceChildren(...parts);
  }

  async function restrict(mode) {
    try {
      const answer = await request(
        "/api/restrict",
        { method: "POST", body: { mode, rows: mode === "clear" ? [] : chosen } },
      );
      chosen = [];
      await Promise.all([refreshProject(), queue.restart()]);
      await load();
      showNotice(`The next rounds pick from ${plural(answer.candidates, "item")}.`);
    } catch (error) {
      showError(error);
    }
  }

  const reload = () => load().catch((error) => choiceBox.replaceChildren(h("p", { class: "quiet" }, error.message)));
  const darkScheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => (drawColors(), drawPicks());
  darkScheme.addEventListener("change", repaint);
  reload();
  const cleanups = [
    on("round", reload),
    on("map", reload),
    surface.end,
    card.end,
    () => darkScheme.removeEventListener("change", repaint),
  ];
  return { end: () => cleanups.forEach((end) => end()) };
}

// A card with the item under the pointer, or the item that was clicked.

const HOVER_MS = 60;

function makeItemCard() {
  const loadedItems = new Map();
  const node = h("aside", { class: "card", hidden: true, "aria-label": "Item on the map" });
  let row = -1;
  let pinned = false;
  let timer = 0;

  async function itemOf(wanted) {
    if (!loadedItems.has(wanted)) loadedItems.set(wanted, await request(`/api/items/${wanted}`));
    return loadedItems.get(wanted);
  }

  function labelText(item) {
    if (item.label !== null && item.label !== undefined) return ["Labeled ", userText(item.label, { class: "said" })];
    return [item.skipped ? "Skipped" : "Not labeled"];
  }

  async function show(wanted, x, y) {
    const item = await itemOf(wanted);
    if (wanted !== row) return;
    node.replaceChildren(
      renderBrief(item, 256),
      userText(item.id, { class: "id" }),
      h("p", null, labelText(item)),
      button("Label this one", () => openInLabelView(wanted).catch(showError)),
      h("a", { href: similarUrl(wanted) }, "More like this"),
    );
    node.hidden = false;
    if (x !== undefined) move(x, y);
  }

  function move(x, y) {
    const left = Math.min(x + 18, innerWidth - node.offsetWidth - 12);
    const top = Math.min(y + 18, innerHeight - node.offsetHeight - 12);
    node.style.setProperty("--left", `${Math.max(8, left)}px`);
    node.style.setProperty("--top", `${Math.max(8, top)}px`);
  }

  function hide() {
    row = -1;
    node.hidden = true;
  }

  return {
    node,
    hover(found, x, y) {
      if (pinned) return;
      clearTimeout(timer);
      if (found < 0) return hide();
      if (found === row) return move(x, y);
      row = found;
      timer = setTimeout(() => show(found, x, y).catch(hide), HOVER_MS);
    },
    pin(found) {
      clearTimeout(timer);
      pinned = found >= 0;
      node.classList.toggle("is-pinned", pinned);
      if (!pinned) return hide();
      row = found;
      show(found).catch(showError);
    },
    end: () => clearTimeout(timer),
  };
}

// The points as arrays: decoding, the nearest point, the points inside a polygon.

function bytes(text) {
  return Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(
    atob(text),
    (each) => each.charCodeAt(0),
  );
}

function floats(text) {
  return new Float32Array(bytes(text).buffer);
}

function integers(text) {
  return new Int32Array(bytes(text).buffer);
}

function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** The range of all values but the lowest and the highest 1%, widened by 5% on each side. */
function middleRange(values) {
  const sorted = Float32Array.from(values).sort();
  const low = sorted[Math.floor(0.01 * (sorted.length - 1))];
  const high = sorted[Math.ceil(0.99 * (sorted.length - 1))];
  return [low - (high - low) / 20, high + (high - low) / 20];
}

/** Decodes the response of `GET /api/map`. x and y are scaled equally, so that most items lie between -1 and 1; a few
 * outliers therefore do not squeeze the others together. */
function decode(answer) {
  const x = floats(answer.x);
  const y = floats(answer.y);
  const [left, right] = middleRange(x);
  const [bottom, top] = middleRange(y);
  const half = Math.max(right - left, top - bottom, 1e-12) / 2;
  const xy = new Float32Array(2 * answer.n);
  for (let row = 0; row < answer.n; row += 1) {
    xy[2 * row] = (x[row] - (left + right) / 2) / half;
    xy[2 * row + 1] = (y[row] - (bottom + top) / 2) / half;
  }
  const picked = integers(answer.picked);
  return {
    n: answer.n,
    xy,
    doubt: floats(answer.doubt),
    label: integers(answer.label),
    picked,
    order: pickedRows(picked),
    excluded: integers(answer.excluded),
    covered: answer.covered ?? [],
    classes: answer.classes,
  };
}

/** The picked rows, in order. */
function pickedRows(picked) {
  const rows = [];
  picked.forEach((place, row) => place >= 0 && rows.push(row));
  return Uint32Array.from(rows.sort((a, b) => picked[a] - picked[b]));
}

/** A grid of cells with their rows, to find the nearest point quickly. */
function makeGrid({ n, xy }) {
  const side = Math.max(1, Math.min(512, Math.ceil(Math.sqrt(n / 3))));
  const place = (value) => Math.min(side - 1, Math.max(0, Math.floor(((value + 1) / 2) * side)));
  const cell = (row) => place(xy[2 * row + 1]) * side + place(xy[2 * row]);
  const starts = new Uint32Array(side * side + 1);
  for (let row = 0; row < n; row += 1) starts[cell(row) + 1] += 1;
  for (let each = 0; each < side * side; each += 1) starts[each + 1] += starts[each];
  const rows = new Uint32Array(n);
  const next = starts.slice();
  for (let row = 0; row < n; row += 1) rows[next[cell(row)]++] = row;
  return { side, place, starts, rows, xy };
}

/** The row nearest to (x, y) within `reach`, or -1. */
function nearest(grid, x, y, reach) {
  const { place, side, starts, rows, xy } = grid;
  let best = -1;
  let smallest = reach * reach;
  for (let down = place(y - reach); down <= place(y + reach); down += 1) {
    for (let along = place(x - reach); along <= place(x + reach); along += 1) {
      for (let at = starts[down * side + along]; at < starts[down * side + along + 1]; at += 1) {
        const row = rows[at];
        const away = (xy[2 * row] - x) ** 2 + (xy[2 * row + 1] - y) ** 2;
        if (away < smallest) [best, smallest] = [row, away];
      }
    }
  }
  return best;
}

/** Rows inside a polygon [[x, y], ...], by the even-odd rule. */
function rowsInside({ n, xy }, polygon) {
  const [left, right] = extent(polygon.map(([x]) => x));
  const [bottom, top] = extent(polygon.map(([, y]) => y));
  const found = [];
  for (let row = 0; row < n; row += 1) {
    const x = xy[2 * row];
    const y = xy[2 * row + 1];
    if (x >= left && x <= right && y >= bottom && y <= top && crossings(polygon, x, y) % 2) found.push(row);
  }
  return found;
}

function crossings(polygon, x, y) {
  let count = 0;
  for (let at = 0, before = polygon.length - 1; at < polygon.length; before = at, at += 1) {
    const [ax, ay] = polygon[at];
    const [bx, by] = polygon[before];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) count += 1;
  }
  return count;
}
