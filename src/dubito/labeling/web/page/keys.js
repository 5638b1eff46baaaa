// Keyboard shortcuts. Classes have digits, and letters that no command uses, so that commands always have the same keys.

import { state } from "./state.js";

export const COMMANDS = [
  ["l", "Label, one item at a time"],
  ["g", "Grid: many of one class"],
  ["i", "Items: search, filter, correct"],
  ["m", "Map of the pool"],
  ["c", "Curve, and whether to stop"],
  ["r", "Review doubtful labels"],
  ["h", "Hint: the model's guess"],
  ["t", "Train now, pick the next round"],
];

const LETTERS = "abdefjknopqsuvwxyz";

/** The key of a class; "" if it has none. The server assigns them. */
export function keyOf(name) {
  return state.keys[name] ?? "";
}

/** A key as it is displayed: a capital letter, unless that is the name of another class. */
export function printed(key, name, classes) {
  const capital = key.toUpperCase();
  return capital !== name && classes.includes(capital) ? key : capital;
}

/** The character of a pressed key; in layouts with other letters, the one at this position of the Latin layout. */
export function pressed(event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (/^[0-9a-z]$/.test(key) || key.length > 1) return key;
  const place = /^(?:Digit|Key|Numpad)([0-9A-Z])$/.exec(event.code ?? "");
  return place && !event.shiftKey ? place[1].toLowerCase() : key;
}

/** The class of a key, or null. With Shift, a class named by that capital letter takes precedence. */
export function classOfKey(key, classes, shift = false) {
  if (key.length !== 1) return null;
  const capital = key.toUpperCase();
  if (shift && LETTERS.includes(key) && classes.includes(capital)) return capital;
  return classes.find((name) => keyOf(name) === key) ?? null;
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

/** Whether the browser uses Space, Enter or the arrow keys for this element. */
export function isControl(target) {
  return target.matches("a, button, input, select, textarea, summary, [tabindex='0']");
}

/** Calls `act(key, event)` for keys that are meant for the page; it returns whether it used the key. */
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
