// A map of the pool: where the model doubts, what is labeled, what was picked; a lasso says what to ask about.

import { ask } from "./api.js";
import { refreshProject } from "./classes.js";
import { css, ofClass, paint, scale } from "./colors.js";
import { button, h, own } from "./dom.js";
import { known, on } from "./hub.js";
import { hoverCard } from "./card.js";
import { notice, say, wrong } from "./notices.js";
import { decode, inside, makeIndex, nearest } from "./points.js";
import * as queue from "./queue.js";
import { makeSurface } from "./surface.js";
import { count, percent, some } from "./words.js";

const WAYS = { doubt: "Doubt", label: "Label", order: "Pick order" };
const SHOWN = 12;

export function makeMapView(view) {
  let points = null;
  let index = null;
  let by = "doubt";
  let chosen = [];

  const card = hoverCard();
  const surface = makeSurface({
    isReady: () => points !== null,
    size: () => (points ? Math.max(2.6, 11.5 - Math.log10(points.n) * 1.7) : 4),
    find: (x, y, reach) => (index ? nearest(index, x, y, reach) : -1),
    hover: card.hover,
    pick: card.pin,
    lasso: (polygon) => choose(inside(points, polygon)),
  });
  const ways = h("fieldset", { class: "ways" }, h("legend", null, "Color"), Object.entries(WAYS).map(way));
  const legend = h("div", { class: "scale" });
  const slider = h("input", { type: "range", id: "upto", min: "0", max: "0", value: "0", oninput: drawPicks });
  const told = h("output", { for: "upto" });
  const picks = h("div", { class: "picks" }, h("label", { for: "upto" }, "Picks so far"), slider, told);
  const lasso = button(
    "Lasso",
    () => useLasso(lasso.getAttribute("aria-pressed") !== "true"),
    { "aria-pressed": "false" },
  );
  const tools = h(
    "div",
    { class: "acts" },
    lasso,
    button("Choose what is in view", () => points && choose(inside(points, surface.corners()))),
  );
  const zoom = h(
    "div",
    { class: "zoom" },
    button("+", () => surface.zoom(1.5), { "aria-label": "Zoom in" }),
    button("−", () => surface.zoom(1 / 1.5), { "aria-label": "Zoom out" }),
    button("Fit", surface.fit),
  );
  const choice = h("div", { class: "choice", role: "status" });
  const side = h(
    "div",
    { class: "side" },
    ways,
    legend,
    picks,
    h("section", { "aria-label": "Choose items" }, h("h3", null, "Ask about some only"), tools, choice),
  );
  surface.node.append(zoom);
  view.replaceChildren(h("div", { class: "mapping" }, h("div", { class: "sea" }, surface.node), side, card.node));

  function way([name, label]) {
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
    if (yes) say("Lasso: draw around the items with the pointer.");
  }

  async function load() {
    const answer = await ask("/api/map", { seconds: 60 });
    if (!answer.n) {
      choice.replaceChildren(h("p", { class: "quiet" }, answer.waiting ?? "There is nothing to draw yet."));
      return;
    }
    points = decode(answer);
    index = makeIndex(points);
    surface.set(points);
    slider.max = String(points.order.length);
    slider.value = slider.max;
    drawColors();
    drawPicks();
    drawChoice();
  }

  function drawColors() {
    if (!points) return;
    surface.color(paint(points, by, chosen));
    legend.replaceChildren(...(scale(by) ? ramp() : swatches()));
  }

  function ramp() {
    const bar = h("span", { class: "ramp", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(90deg, ${scale(by).map(css).join(", ")})`;
    if (by === "doubt" && points.doubt.every(Number.isNaN)) return [h("p", { class: "quiet" }, "Nothing is doubted yet: there is no model.")];
    return [
      h("span", null, by === "doubt" ? "sure" : "first"),
      bar,
      h("span", null, by === "doubt" ? "in doubt" : "last"),
    ];
  }

  function swatches() {
    const shown = points.classes.slice(0, SHOWN).map((name, number) => {
      const dot = h("span", { class: "swatch", "aria-hidden": "true" });
      dot.style.background = css(ofClass(number));
      return h("span", { class: "entry" }, dot, own(name));
    });
    return points.classes.length > SHOWN ? [
      ...shown,
      h("span", { class: "quiet" }, `and ${points.classes.length - SHOWN} more`),
    ] : shown;
  }

  function drawPicks() {
    if (!points) return;
    const upTo = Number(slider.value);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    surface.show(upTo, dark ? [240, 240, 238] : [24, 26, 30]);
    const before = points.order.length - points.covered.length;
    const covered = points.covered[upTo - before - 1];
    told.replaceChildren(
      `${count(upTo)} of ${some(points.order.length, "pick")}`,
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
    const { restricted } = known.project;
    const left = points.excluded.reduce((sum, each) => sum + (each ? 1 : 0), 0);
    const parts = [];
    if (chosen.length) parts.push(
      h("p", null, h("strong", null, some(chosen.length, "item")), " chosen."),
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
          restricted === null || restricted === undefined ? `${some(left, "item is", "items are")} left out.` : `Only ${some(restricted, "item")} may be asked about.`,
        ),
        button("Ask about all again", () => restrict("clear")),
      );
    }
    choice.replaceChildren(...parts);
  }

  async function restrict(mode) {
    try {
      const answer = await ask(
        "/api/restrict",
        { method: "POST", body: { mode, rows: mode === "clear" ? [] : chosen } },
      );
      chosen = [];
      await Promise.all([refreshProject(), queue.startAgain()]);
      await load();
      notice(`The next rounds pick from ${some(answer.candidates, "item")}.`);
    } catch (error) {
      wrong(error);
    }
  }

  const reload = () => load().catch((error) => choice.replaceChildren(h("p", { class: "quiet" }, error.message)));
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => (drawColors(), drawPicks());
  scheme.addEventListener("change", repaint);
  reload();
  const ends = [
    on("round", reload),
    on("map", reload),
    surface.end,
    card.end,
    () => scheme.removeEventListener("change", repaint),
  ];
  return { end: () => ends.forEach((end) => end()) };
}
