// Which key does what. Digits 1-9 are the first nine classes; further classes take the letters that no command has,
// so that a command is always the same key and no class is ever in its way.

export const COMMANDS = [
  ["l", "Label, one item at a time"],
  ["g", "Grid: many of one class"],
  ["m", "Map of the pool"],
  ["c", "Curve, and whether to stop"],
  ["r", "Review doubtful labels"],
  ["h", "Hint: the model's guess"],
  ["t", "Train now, pick the next round"],
];

const LETTERS = "abdefijknopqsuvwxyz";
const ORDER = "123456789" + LETTERS;

/** The keys of classes, in their order; "" where there are more classes than keys. A class that is called by one
 * character has that as its key, or a person who sees a 3 and presses 3 would say something else. */
export function keysOf(classes) {
  const named = classes.map((name) => (name.length === 1 && `0${ORDER}`.includes(name.toLowerCase()) ? name.toLowerCase() : ""));
  const taken = new Set();
  const keys = named.map((name) => (name && !taken.has(name) && taken.add(name) ? name : ""));
  const free = [...ORDER].filter((each) => !taken.has(each));
  return keys.map((each) => each || free.shift() || "");
}

/** One character for what was pressed: of the layout, or of the key's place where the layout has other letters. */
export function pressed(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[0-9a-z]$/.test(key) || key.length > 1) return key;
  const place = /^(?:Digit|Key|Numpad)([0-9A-Z])$/.exec(event.code ?? "");
  return place && !event.shiftKey ? place[1].toLowerCase() : key;
}

/** The class that a key stands for, or null. */
export function classOfKey(key, classes) {
  return key.length === 1 ? (classes[keysOf(classes).indexOf(key)] ?? null) : null;
}

const SWITCH = "dubito.single-keys";

export function singleKeysAct() {
  return localStorage.getItem(SWITCH) !== "off";
}

export function setSingleKeys(act) {
  localStorage.setItem(SWITCH, act ? "on" : "off");
}

function isTyped(target) {
  if (target.isContentEditable || target.matches("textarea, select")) return true;
  return target.matches("input") && !["range", "checkbox", "radio", "button"].includes(target.type);
}

/** True where the browser itself has a use for Space, Enter or the arrows. */
export function isControl(target) {
  return target.matches("a, button, input, select, textarea, summary, [tabindex='0']");
}

/** Calls `act(key, event)` for keys that are meant for the page; it says whether the key was used. */
export function listen(act) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") || isTyped(event.target)) return;
    const key = pressed(event);
    if (event.ctrlKey && key !== "z") return;
    if (key.length === 1 && key !== " " && !event.ctrlKey && !singleKeysAct()) return;
    if (act(event.ctrlKey ? "Backspace" : key, event)) event.preventDefault();
  });
}
