// Formatting numbers and reasons.

const COUNT = new Intl.NumberFormat("en");

export function formatNumber(number) {
  return COUNT.format(number);
}

/** `plural(1, "label")` is "1 label", `plural(2, "label")` "2 labels", `plural(2, "class", "classes")` "2 classes". */
export function plural(number, one, many = `${one}s`) {
  return `${formatNumber(number)} ${number === 1 ? one : many}`;
}

export function percent(fraction, digits = 0) {
  if (fraction === null || fraction === undefined || Number.isNaN(fraction)) return "–";
  return `${(100 * fraction).toFixed(digits)}%`;
}

/** "91% (88–94%)", or only the value if there is no interval. */
export function withInterval(fraction, low, high) {
  if (low === null || low === undefined || high === null || high === undefined) return percent(fraction);
  return `${percent(fraction)} (${(100 * low).toFixed(0)}–${percent(high)})`;
}

export const PICK_REASONS = {
  "in doubt": "the model is in doubt here",
  covers: "it represents many others",
  audit: "drawn at random, to audit the model",
  random: "drawn at random",
  overlap: "another annotator labels it, too",
  first: "one of the first",
};
