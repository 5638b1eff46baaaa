// Colors of points. The first classes have the colors of Okabe and Ito, which color-blind readers can distinguish, and
// two matching ones; the colors of further classes are spread over the color wheel.

const PALETTE = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#b8a200",
  "#7a4a1e",
  "#5e3c99",
  "#f4a6b7",
];

const THEMES = {
  light: {
    nothing: [196, 200, 206, 200],
    low: [205, 214, 222],
    high: [0, 76, 136],
    faded: [216, 219, 223, 120],
    first: [226, 190, 140],
    last: [190, 70, 0],
    lighter: 0,
  },
  dark: {
    nothing: [84, 90, 99, 200],
    low: [58, 66, 76],
    high: [140, 208, 255],
    faded: [60, 64, 71, 120],
    first: [92, 66, 40],
    last: [255, 170, 90],
    lighter: 0.28,
  },
};

function theme() {
  return THEMES[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
}

function parseHex(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

function wheelColor(number) {
  const hue = (number * 137.508) % 360;
  const level = (offset) => {
    const turn = (offset + hue / 30) % 12;
    return Math.round(255 * (0.55 - 0.36 * Math.max(-1, Math.min(turn - 3, 9 - turn, 1))));
  };
  return [level(0), level(8), level(4)];
}

/** The color of a class by its number, as [red, green, blue]. */
export function classColor(number) {
  const color = number < PALETTE.length ? parseHex(PALETTE[number]) : wheelColor(number);
  return color.map((part) => part + (255 - part) * theme().lighter);
}

export function cssColor(color) {
  return `rgb(${color.slice(0, 3).join(" ")})`;
}

function interpolate(low, high, share) {
  return low.map((each, at) => each + (high[at] - each) * share);
}

/** The two ends of a color scale, or null for classes. */
export function scaleEnds(by) {
  const { low, high, first, last } = theme();
  return { doubt: [low, high], order: [first, last], label: null }[by];
}

/** A function from a row to its color. A scale is computed once in 256 steps, since there may be millions of rows. */
function colorFunction(points, by) {
  const { nothing } = theme();
  if (by === "label") {
    const colors = points.classes.map((_, number) => classColor(number));
    return (row) => colors[points.label[row]] ?? nothing;
  }
  const values = by === "doubt" ? points.doubt : points.picked;
  const most = values.reduce((high, each) => (each > high ? each : high), 1e-9);
  const ends = scaleEnds(by);
  const steps = Array.from({ length: 256 }, (_, step) => interpolate(...ends, step / 255));
  return (row) => (values[row] >= 0 ? steps[Math.round((255 * values[row]) / most)] : nothing);
}

/** RGBA of all points. Excluded rows are faded; if some rows are `chosen`, all others are. */
export function pointColors(points, by, chosen) {
  const { faded } = theme();
  const colorOf = colorFunction(points, by);
  const isChosen = new Uint8Array(points.n);
  for (const row of chosen) isChosen[row] = 1;
  const out = new Uint8Array(4 * points.n);
  for (let row = 0; row < points.n; row += 1) {
    const isHidden = points.excluded[row] || (chosen.length > 0 && !isChosen[row]);
    const color = isHidden ? faded : colorOf(row);
    out[4 * row] = color[0];
    out[4 * row + 1] = color[1];
    out[4 * row + 2] = color[2];
    out[4 * row + 3] = color[3] ?? 225;
  }
  return out;
}
