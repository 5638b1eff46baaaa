// Taking back what was said last: one answer, or the screen of them that was given at once.

import { known, on, tell } from "./hub.js";
import { send } from "./outbox.js";

let screen = new Set();

/** These rows were labeled at once, and nothing since. */
export function rememberScreen(rows) {
  screen = new Set(rows);
}

/** Takes the last answer back; returns its item as it stands now. */
export async function undoOne() {
  const answer = await send("/api/undo", { annotator: known.annotator }, "Undoing your last label");
  if (!screen.delete(answer.row)) screen.clear();
  tell("labels", { labeled: answer.labeled });
  return answer.item;
}

/** Takes the last answer back, and with it the others of its screen; returns their items, the last one first. */
export async function undoScreen() {
  const items = [await undoOne()];
  while (screen.size) items.push(await undoOne());
  return items;
}

on("answer", () => screen.clear());
on("annotator", () => screen.clear());
