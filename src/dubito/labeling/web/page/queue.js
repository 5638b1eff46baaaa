// The queue of items to label next, which are loaded with their pictures ahead of time.

import { ask } from "./api.js";
import { state, on, emit } from "./state.js";
import { render } from "./item.js";

const AHEAD = 12;
const LOW = 8;
const RENEW = 60_000;
const LOOK_AGAIN = 3000;

let entries = [];
let waiting = null;
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

/** Whether the first items are being loaded. */
export function isComing() {
  return isAnew;
}

/** `isWanted` tells whether the response is still needed when it arrives. */
async function fetchNext(isWanted) {
  const query = new URLSearchParams({ annotator: state.annotator, count: AHEAD });
  const answer = await ask(`/api/next?${query}`);
  if (!isWanted()) return;
  const held = new Map(entries.map((entry) => [entry.item.row, entry]));
  const wasEmpty = entries.length === 0;
  const fresh = answer.items.filter((item) => !done.has(item.row));
  const kept = entries.filter((entry, place) => place === 0 || entry.wanted);
  const rest = fresh.filter((item) => !kept.some((entry) => entry.item.row === item.row));
  entries = [...kept, ...rest.map((item) => held.get(item.row) ?? prepared(item))];
  const previous = waiting;
  waiting = answer.waiting;
  const isNews = isAnew || (wasEmpty && (entries.length > 0 || waiting !== previous));
  isAnew = false;
  if (isNews) emit("queue");
}

/** Loads more items. Only one request runs at a time. */
export function refill() {
  if (asking) return asking;
  const question = fetchNext(() => asking === question).finally(() => {
    if (asking === question) asking = null;
  });
  asking = question;
  return question;
}

/** Removes a row that was labeled. */
export function finish(row) {
  done.add(row);
  entries = entries.filter((entry) => entry.item.row !== row);
  if (entries.length < LOW) refill().catch(() => {});
}

/** Puts an item first. */
export function putFirst(item) {
  done.delete(item.row);
  entries = [{ ...prepared(item), wanted: true }, ...entries.filter((entry) => entry.item.row !== item.row)];
}

/** Allows rows again whose labels were undone in another view. */
export function allowAgain(rows) {
  for (const row of rows) done.delete(row);
}

/** Removes rows that were labeled in another view. */
export function drop(rows) {
  for (const row of rows) done.add(row);
  entries = entries.filter((entry) => !done.has(entry.item.row));
}

/** Empties the queue and loads it again, for another annotator or other items. Nothing is shown until then, so that no
 * key labels an item of another annotator; the response of an earlier request is ignored. */
export function restart() {
  entries = [];
  done.clear();
  asking = null;
  isAnew = true;
  emit("queue");
  return refill();
}

function refillQuietly() {
  if (state.annotator && document.visibilityState === "visible") refill().catch(() => {});
}

on("round", refillQuietly);
// Requests renew the leases of the shown items; they are more frequent while the queue is empty.
setInterval(refillQuietly, RENEW);
setInterval(() => entries.length === 0 && refillQuietly(), LOOK_AGAIN);
