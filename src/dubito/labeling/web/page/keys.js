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

/** The keys of classes, in the order they were added; "" where there are more classes than keys. A class never moves
 * the key of one before it. One that is called by a free character has that as its key, or a person who sees a 3 and
 * presses 3 would say something else; so a number without a key of its own takes a letter before another number's key. */
export function keysOf(classes) {
  const free = new Set(`0${ORDER}`);
  return classes.map((name) => {
    const own = name.toLowerCase();
    const order = /^\d+$/.test(name) ? LETTERS + ORDER : ORDER;
    const found = own.length === 1 && free.has(own) ? own : ([...order].find((each) => free.has(each)) ?? "");
    free.delete(found);
    return found;
  });
}

/** A key as it is printed: a capital, unless that is the name of another class. */
export function printed(key, name, classes) {
  const capital = key.toUpperCase();
  return capital !== name && classes.includes(capital) ? key : capital;
}

/** One character for what was pressed: of the layout, or of the key's place where the layout has other letters. */
export function pressed(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[0-9a-z]$/.test(key) || key.length > 1) return key;
  const place = /^(?:Digit|Key|Numpad)([0-9A-Z])$/.exec(event.code ?? "");
  return place && !event.shiftKey ? place[1].toLowerCase() : key;
}

/** The class that a key stands for, or null. With Shift, a class that is called by that very capital comes first. */
export function classOfKey(key, classes, shift = false) {
  if (key.length !== 1) return null;
  const capital = key.toUpperCase();
  if (shift && LETTERS.includes(key) && classes.includes(capital)) return capital;
  return classes[keysOf(classes).indexOf(key)] ?? null;
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
