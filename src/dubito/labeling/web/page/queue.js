// The items to label next, asked for ahead of time, with their pictures: the person never waits for one.

import { ask } from "./api.js";
import { known, on, tell } from "./hub.js";
import { render } from "./item.js";

const AHEAD = 12;
const LOW = 8;
const RENEW = 60_000;
const LOOK_AGAIN = 3000;

let entries = [];
let waiting = null;
let left = null;
let asking = null;
let isAnew = false;
const done = new Set();

function prepared(item) {
  return { item, ...render(item) };
}

export function first() {
  return entries[0] ?? null;
}

export function whyEmpty() {
  return waiting;
}

export function itemsLeft() {
  return left;
}

/** Nothing is known of what comes: it is being asked for. */
export function isComing() {
  return isAnew;
}

/** `isWanted` says, when the answer is here, whether anybody still waits for it. */
async function fetchNext(isWanted) {
  const query = new URLSearchParams({ annotator: known.annotator, count: AHEAD });
  const answer = await ask(`/api/next?${query}`);
  if (!isWanted()) return;
  const held = new Map(entries.map((entry) => [entry.item.row, entry]));
  const wasEmpty = entries.length === 0;
  const fresh = answer.items.filter((item) => !done.has(item.row));
  const kept = entries.filter((entry, place) => place === 0 || entry.wanted);
  const rest = fresh.filter((item) => !kept.some((entry) => entry.item.row === item.row));
  entries = [...kept, ...rest.map((item) => held.get(item.row) ?? prepared(item))];
  const told = waiting;
  waiting = answer.waiting;
  left = answer.left;
  const isNews = isAnew || (wasEmpty && (entries.length > 0 || waiting !== told));
  isAnew = false;
  if (isNews) tell("queue");
}

/** Asks for more. One question at a time; a second one waits for the first. */
export function refill() {
  if (asking) return asking;
  const question = fetchNext(() => asking === question).finally(() => {
    if (asking === question) asking = null;
  });
  asking = question;
  return question;
}

/** The server has a label of this row: on to the next. */
export function finish(row) {
  done.add(row);
  entries = entries.filter((entry) => entry.item.row !== row);
  if (left !== null && left > 0) left -= 1;
  if (entries.length < LOW) refill().catch(() => {});
}

/** An item to show before all others: undone, or asked for. */
export function putFirst(item) {
  done.delete(item.row);
  entries = [{ ...prepared(item), wanted: true }, ...entries.filter((entry) => entry.item.row !== item.row)];
}

/** Undone elsewhere on the page: they may be asked about again. */
export function giveBack(rows) {
  for (const row of rows) done.delete(row);
}

/** Labeled elsewhere on the page. */
export function drop(rows) {
  for (const row of rows) done.add(row);
  entries = entries.filter((entry) => !done.has(entry.item.row));
}

/** Everything anew: another annotator, or other items are asked about. Until they come nothing is shown, so that no
 * key labels what was asked of somebody else; and an answer that is under way already is not waited for. */
export function startAgain() {
  entries = [];
  done.clear();
  asking = null;
  isAnew = true;
  tell("queue");
  return refill();
}

function refillQuietly() {
  if (known.annotator && document.visibilityState === "visible") refill().catch(() => {});
}

on("round", refillQuietly);
// Asking again renews what is held for this person, however long they look at it; and more often if there is nothing.
setInterval(refillQuietly, RENEW);
setInterval(() => entries.length === 0 && refillQuietly(), LOOK_AGAIN);
