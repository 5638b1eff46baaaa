// How good is the model, and should I stop?

import { ask } from "./api.js";
import { drawCurve, telling } from "./chart.js";
import { button, h, key } from "./dom.js";
import { known, on, tell } from "./hub.js";
import { count, percent, some, within } from "./words.js";

const SAID = [
  [
    "held-out",
    "On labels held out",
    "The model is trained without some of your labels and asked for them. What dubito picks is harder than the rest, so the pool as a whole is usually easier than this.",
  ],
  [
    "before",
    "Before it saw them",
    "Of each round's labels, how many the model had guessed right before it learnt from them: its worst subject, honestly marked.",
  ],
  ["audited", "Drawn at random", "Items picked by chance: the only estimate that is unbiased for the whole pool."],
];

function table(curve) {
  const rows = curve.points.map((point) => {
    const guessed = curve.guessed.findLast((each) => each.labels <= point.labels);
    const cover = curve.covered?.find((each) => each.round === point.round);
    const cells = [
      count(point.labels),
      within(point.accuracy, point.low, point.high),
      guessed ? `${guessed.right} of ${guessed.of}` : "–",
      cover ? percent(cover.share) : "–",
    ];
    return h("tr", null, cells.map((cell, at) => (at ? h("td", null, cell) : h("th", { scope: "row" }, cell))));
  });
  const names = ["Labels", "Right on labels held out", "Right before it saw them", "Of the pool covered"];
  return h(
    "details",
    { class: "numbers" },
    h("summary", null, "The numbers"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of numbers" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, rows),
      ),
    ),
  );
}

/** The server's advice is of the last round; before the first model that knows of no labels. */
function advised(curve) {
  const { labeled, model } = known.project;
  if (curve.points.length || model.labels || !labeled) return curve.advice.sentence;
  return "go on: the model has not learnt yet.";
}

/** What the last round has changed. */
function change(points) {
  if (points.length < 2) return "";
  const [before, now] = points.slice(-2);
  if (now.labels === before.labels) return "";
  return `Since the round before: ${some(now.labels - before.labels, "label")} more, and ${percent(before.accuracy, 1)} became ${percent(now.accuracy, 1)} on labels held out.`;
}

function legend(curve) {
  const has = {
    "held-out": curve.points.length > 0,
    before: telling(curve).length > 0,
    audited: Boolean(curve.audited?.of),
  };
  return h(
    "dl",
    { class: "legend" },
    SAID.filter(([kind]) => has[kind]).map(([kind, name, meaning]) => h(
      "div",
      null,
      h("dt", { class: kind }, name),
      h("dd", null, meaning),
    )),
  );
}

export function makeCurveView(view) {
  const advice = h("p", { class: "advice", role: "status" });
  const changed = h("p", { class: "quiet" });
  const body = h("div", { class: "chart" });
  const training = button(["Train now ", key("T")], () => tell("train"));
  view.replaceChildren(h(
    "div",
    { class: "curving" },
    h("h2", null, "Should I stop?"),
    advice,
    changed,
    body,
    h("p", { class: "acts" }, training),
  ));

  async function load() {
    const curve = await ask("/api/curve");
    const sentence = advised(curve);
    advice.textContent = sentence.charAt(0).toUpperCase() + sentence.slice(1);
    advice.classList.toggle("stop", curve.advice.stop);
    changed.textContent = change(curve.points);
    if (curve.points.length === 0) {
      const { labeled } = known.project;
      body.replaceChildren(h(
        "p",
        { class: "quiet" },
        `The curve begins when the model has learnt for the first time. There ${labeled === 1 ? "is" : "are"} ${some(labeled, "label")} so far.`,
      ));
      return;
    }
    body.replaceChildren(
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": "Learning curve" },
        drawCurve(curve, Math.min(1100, Math.max(340, body.clientWidth))),
      ),
      legend(curve),
      table(curve),
    );
  }

  const show = () => load().catch((error) => (advice.textContent = error.message));
  show();
  const ends = [on("round", show), on("model", show)];
  return { end: () => ends.forEach((end) => end()) };
}
