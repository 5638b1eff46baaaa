// The queue of items to label next, which are loaded with their pictures ahead of time.

import { request } from "./api.js";
import { state, on, emit } from "./state.js";
import { render } from "./item.js";

const PREFETCH = 12;
const REFILL_BELOW = 8;
const RENEW_MS = 60_000;
const POLL_MS = 3000;

let entries = [];
let waiting = null;
let pending = null;
let isRestarting = false;
const answered = new Set();

function makeEntry(item) {
  return { item, ...render(item) };
}

export function firstEntry() {
  return entries[0] ?? null;
}

export function emptyReason() {
  return waiting;
}

/** Whether the queue was restarted and its first items are still being loaded. */
export function isLoading() {
  return isRestarting;
}

/** Loads items; `isWanted()` says whether the response is still needed when it arrives. */
async function fetchNext(isWanted) {
  const query = new URLSearchParams({ annotator: state.annotator, count: PREFETCH });
  const answer = await request(`/api/next?${query}`);
  if (!isWanted()) return;
  const held = new Map(entries.map((entry) => [entry.item.row, entry]));
  const wasEmpty = entries.length === 0;
  const fresh = answer.items.filter((item) => !answered.has(item.row));
  const kept = entries.filter((entry, index) => index === 0 || entry.isPinned);
  const rest = fresh.filter((item) => !kept.some((entry) => entry.item.row === item.row));
  entries = [...kept, ...rest.map((item) => held.get(item.row) ?? makeEntry(item))];
  const previous = waiting;
  waiting = answer.waiting;
  const isNews = isRestarting || (wasEmpty && (entries.length > 0 || waiting !== previous));
  isRestarting = false;
  if (isNews) emit("queue");
}

/** Loads more items. Only one request runs at a time. */
export function refill() {
  if (pending) return pending;
  const thisRequest = fetchNext(() => pending === thisRequest).finally(() => {
    if (pending === thisRequest) pending = null;
  });
  pending = thisRequest;
  return thisRequest;
}

/** Removes a row that was labeled. */
export function removeAnswered(row) {
  answered.add(row);
  entries = entries.filter((entry) => entry.item.row !== row);
  if (entries.length < REFILL_BELOW) refill().catch(() => {});
}

/** Puts an item first. */
export function putFirst(item) {
  answered.delete(item.row);
  entries = [{ ...makeEntry(item), isPinned: true }, ...entries.filter((entry) => entry.item.row !== item.row)];
}

/** Allows rows again after their labels were undone in another view. */
export function allowAgain(rows) {
  for (const row of rows) answered.delete(row);
}

/** Removes rows that were labeled in another view. */
export function drop(rows) {
  for (const row of rows) answered.add(row);
  entries = entries.filter((entry) => !answered.has(entry.item.row));
}

/** Empties the queue and loads it again, for another annotator or other items. Nothing is shown in the meantime, so that
 * no key labels an item of the former annotator; responses to earlier requests are ignored. */
export function restart() {
  entries = [];
  answered.clear();
  pending = null;
  isRestarting = true;
  emit("queue");
  return refill();
}

function refillQuietly() {
  if (state.annotator && document.visibilityState === "visible") refill().catch(() => {});
}

on("round", refillQuietly);
// Requests renew the leases of the shown items; they are more frequent while the queue is empty.
setInterval(refillQuietly, RENEW_MS);
setInterval(() => entries.length === 0 && refillQuietly(), POLL_MS);
