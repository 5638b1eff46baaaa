// The learning curve, and advice on when to stop.

import { request } from "./api.js";
import { button, h, kbd, svg } from "./dom.js";
import { state, on, emit } from "./state.js";
import { formatNumber, percent, plural, withInterval } from "./format.js";

const LEGEND = [
  [
    "held-out",
    "On labels held out",
    "The model is trained without some of your labels and asked for them. What dubito picks is harder than the rest, so the pool as a whole is usually easier than this.",
  ],
  [
    "before",
    "Before it saw them",
    "Of each round's labels, how many the model had predicted right before it was trained on them. These items were chosen because they are hard.",
  ],
  [
    "audited",
    "Estimated for the rest",
    "How many of the items without a label the model gets right: an unbiased estimate from the items that were drawn at random, with its 95% interval.",
  ],
];

function table(curve) {
  const rows = curve.points.map((point) => {
    const guessed = curve.guessed.findLast((each) => each.labels <= point.labels);
    const cover = curve.covered?.find((each) => each.round === point.round);
    const cells = [
      formatNumber(point.labels),
      withInterval(point.accuracy, point.low, point.high),
      guessed ? `${guessed.right} of ${guessed.of}` : "–",
      cover ? percent(cover.share) : "–",
    ];
    return h("tr", null, cells.map((cell, index) => (index ? h("td", null, cell) : h("th", { scope: "row" }, cell))));
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

/** The advice of the last round; before the first model, one that mentions that there are labels. */
function adviceText(curve) {
  const { labeled, model } = state.project;
  if (curve.points.length || model.labels || !labeled) return curve.advice.sentence;
  return "go on: the model has not learned yet.";
}

/** How the accuracy changed in the last round. */
function changeText(points) {
  if (points.length < 2) return "";
  const [before, now] = points.slice(-2);
  if (now.labels === before.labels) return "";
  return `Since the round before: ${plural(now.labels - before.labels, "label")} more, and ${percent(before.accuracy, 1)} became ${percent(now.accuracy, 1)} on labels held out.`;
}

function legend(curve) {
  const has = {
    "held-out": curve.points.length > 0,
    before: reliableRounds(curve).length > 0,
    audited: Boolean(curve.estimate),
  };
  return h(
    "dl",
    { class: "legend" },
    LEGEND.filter(([kind]) => has[kind]).map(([kind, name, meaning]) => h(
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
  const chart = h("div", { class: "chart" });
  const trainButton = button(["Train now ", kbd("T")], () => emit("train"));
  view.replaceChildren(h(
    "div",
    { class: "curving" },
    h("h2", null, "Should I stop?"),
    advice,
    changed,
    chart,
    h("p", { class: "acts" }, trainButton),
  ));

  async function load() {
    const curve = await request("/api/curve");
    const sentence = adviceText(curve);
    advice.textContent = sentence.charAt(0).toUpperCase() + sentence.slice(1);
    advice.classList.toggle("stop", curve.advice.stop);
    changed.textContent = changeText(curve.points);
    if (curve.points.length === 0) {
      const { labeled } = state.project;
      chart.replaceChildren(h(
        "p",
        { class: "quiet" },
        `The curve begins when the model has learned for the first time. There ${labeled === 1 ? "is" : "are"} ${plural(labeled, "label")} so far.`,
      ));
      return;
    }
    chart.replaceChildren(
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": "Learning curve" },
        drawCurve(curve, Math.min(1100, Math.max(340, chart.clientWidth))),
      ),
      legend(curve),
      table(curve),
    );
  }

  const show = () => load().catch((error) => (advice.textContent = error.message));
  show();
  const cleanups = [on("round", show), on("model", show)];
  return { end: () => cleanups.forEach((end) => end()) };
}

// The chart as SVG: held-out accuracy with its interval, accuracy on labels before training on them, and the estimate.

const HEIGHT = 400;
const LEFT = 46;
const RIGHT = 172;
const TOP = 18;
const BOTTOM = 46;
const MARGIN = 22;
const MIN_PREDICTIONS = 5;

function niceStep(span, parts) {
  const raw = span / parts;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
}

function ticks(low, high, parts) {
  const step = niceStep(high - low, parts);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9; value += step) found.push(Number(value.toFixed(10)));
  return found;
}

/** Rounds with enough predictions for a meaningful accuracy. */
function reliableRounds(curve) {
  return curve.guessed.filter((each) => each.of >= MIN_PREDICTIONS);
}

function ranges(curve) {
  const guessed = reliableRounds(curve);
  const labels = [...curve.points, ...guessed].map((point) => point.labels);
  const shares = [
    ...curve.points.flatMap((point) => [point.low ?? point.accuracy, point.accuracy]),
    ...guessed.map((each) => each.right / each.of),
  ];
  if (curve.estimate) shares.push(curve.estimate.low);
  const least = Math.max(0, Math.floor(10 * Math.min(...shares, 0.9)) / 10);
  return { most: Math.max(...labels, 10), least };
}

function axes(x, y, most, least, width) {
  const lines = ticks(least, 1, 5).map((share) => svg(
    "g",
    null,
    svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }),
    svg("text", { class: "tick", x: LEFT - 10, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
  ));
  const marks = ticks(0, most, width > 600 ? 6 : 3).map((labels) => svg(
    "text",
    { class: "tick", x: x(labels), y: HEIGHT - BOTTOM + 22, "text-anchor": "middle" },
    String(labels),
  ));
  const name = svg(
    "text",
    { class: "tick", x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" },
    "labels",
  );
  return [...lines, ...marks, name];
}

function band(points, x, y) {
  const bounded = points.filter((point) => point.low !== null && point.low !== undefined);
  const upper = bounded.map((point) => `${x(point.labels)},${y(point.high)}`);
  const lower = bounded.toReversed().map((point) => `${x(point.labels)},${y(point.low)}`);
  return svg("polygon", { class: "band", points: [...upper, ...lower].join(" ") });
}

/** Labels at the right edge, moved apart if they overlap. */
function endLabels(wanted, width) {
  const sorted = wanted.toSorted((a, b) => a.y - b.y);
  sorted.forEach((each, index) => {
    if (index) each.y = Math.max(each.y, sorted[index - 1].y + 36);
  });
  const over = Math.max(0, (sorted.at(-1)?.y ?? 0) + 18 - (HEIGHT - BOTTOM));
  return sorted.map((each) => svg(
    "text",
    { class: `ending ${each.kind}`, x: width - RIGHT + 14, y: each.y - over },
    svg("tspan", { class: "value" }, each.value),
    svg("tspan", { x: width - RIGHT + 14, dy: 16 }, each.name),
  ));
}

/** Draws the response of `GET /api/curve`, `width` pixels wide. */
function drawCurve(curve, width) {
  const { most, least } = ranges(curve);
  const x = (labels) => LEFT + ((width - LEFT - RIGHT - MARGIN) * labels) / most;
  const y = (share) => TOP + ((HEIGHT - TOP - BOTTOM) * (1 - share)) / (1 - least);
  const parts = axes(x, y, most, least, width);
  const ends = [];
  const last = curve.points.at(-1);
  if (last) {
    parts.push(band(curve.points, x, y));
    parts.push(svg(
      "polyline",
      { class: "line", points: curve.points.map((point) => `${x(point.labels)},${y(point.accuracy)}`).join(" ") },
    ));
    parts.push(...curve.points.map((point) => svg(
      "circle",
      { class: "dot", r: 3.5, cx: x(point.labels), cy: y(point.accuracy) },
    )));
    ends.push({ kind: "held-out", y: y(last.accuracy), value: percent(last.accuracy, 1), name: "labels held out" });
  }
  const guessed = reliableRounds(curve);
  if (guessed.length) {
    parts.push(...guessed.map((each) => svg(
      "rect",
      {
        class: "guessed",
        x: x(each.labels) - 4,
        y: y(each.right / each.of) - 4,
        width: 8,
        height: 8,
        transform: `rotate(45 ${x(each.labels)} ${y(each.right / each.of)})`,
      },
    )));
    const newest = guessed.at(-1);
    ends.push({
      kind: "before",
      y: y(newest.right / newest.of),
      value: `${newest.right} of ${newest.of}`,
      name: "before it saw them",
    });
  }
  if (curve.estimate) {
    const { accuracy, low, high } = curve.estimate;
    const edge = width - RIGHT;
    parts.push(svg("line", { class: "audit", x1: edge, x2: edge, y1: y(high), y2: y(low) }));
    parts.push(svg("circle", { class: "audit", r: 5, cx: edge, cy: y(accuracy) }));
    ends.push({ kind: "audited", y: y(accuracy), value: withInterval(accuracy, low, high), name: "of the rest, estimated" });
  }
  return svg(
    "svg",
    {
      class: "curve",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      role: "img",
      "aria-label": "Accuracy by number of labels; the table below has the same numbers.",
    },
    ...parts,
    ...endLabels(ends, width),
  );
}
