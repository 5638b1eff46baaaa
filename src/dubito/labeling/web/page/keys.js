// Keyboard shortcuts. The keys of classes are digits and letters that no command uses.

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

/** A key as displayed: a capital letter, unless that is the name of another class. */
export function keyLabel(key, name, classes) {
  const capital = key.toUpperCase();
  return capital !== name && classes.includes(capital) ? key : capital;
}

/** The character of a pressed key; for non-Latin layouts, the character at its position in the Latin layout. */
export function keyOfEvent(event) {
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

const STORAGE_KEY = "dubito.single-keys";

export function areSingleKeysOn() {
  return localStorage.getItem(STORAGE_KEY) !== "off";
}

export function switchSingleKeys(act) {
  localStorage.setItem(STORAGE_KEY, act ? "on" : "off");
}

function isTextField(target) {
  if (target.isContentEditable || target.matches("textarea, select")) return true;
  return target.matches("input") && !["range", "checkbox", "radio", "button"].includes(target.type);
}

/** Whether the browser uses Space, Enter or the arrow keys for this element. */
export function isControl(target) {
  return target.matches("a, button, input, select, textarea, summary, [tabindex='0']");
}

/** Calls `act(key, event)` for keys that are meant for the page; it returns whether it used the key. */
export function listenToKeys(act) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") || isTextField(event.target)) return;
    const key = keyOfEvent(event);
    if (event.ctrlKey && key !== "z") return;
    if (key.length === 1 && key !== " " && !event.ctrlKey && !areSingleKeysOn()) return;
    if (act(event.ctrlKey ? "Backspace" : key, event)) event.preventDefault();
  });
}

/** Moves the focus among the tiles of a grid with the arrow keys; returns whether the key is one of them. */
export function moveFocus(tiles, key) {
  const columns = getComputedStyle(tiles).gridTemplateColumns.split(" ").length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  if (step === undefined) return false;
  const nodes = [...tiles.querySelectorAll(".tile")];
  const index = nodes.indexOf(document.activeElement);
  nodes[index < 0 ? 0 : Math.min(nodes.length - 1, Math.max(0, index + step))]?.focus();
  return true;
}
