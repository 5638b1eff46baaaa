// Sending changes to the server. Each is kept in localStorage until the server has responded, and repeated with the same
// key until then: no change is lost or applied twice.

import { request, newKey, Refused } from "./api.js";
import { state, on, emit } from "./state.js";

const RETRY_SECONDS = [0.5, 1, 2, 3, 5];

let wake = null;

function storageKey() {
  return `dubito.unsent.${state.project.ident}`;
}

function readUnsent() {
  try {
    return JSON.parse(localStorage.getItem(storageKey())) ?? [];
  } catch {
    return [];
  }
}

function writeUnsent(changes) {
  try {
    if (changes.length) localStorage.setItem(storageKey(), JSON.stringify(changes));
    else localStorage.removeItem(storageKey());
  } catch {
    // Storage is full or disabled: the change is still in memory, and shown as unsaved.
  }
}

function forget(key) {
  writeUnsent(readUnsent().filter((change) => change.key !== key));
}

function pause(seconds) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** Repeats waiting changes immediately. */
export function retryNow() {
  wake?.();
}

async function deliver(change) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await request(change.path, { method: "POST", body: change.body, seconds: 15 });
      forget(change.key);
      if (tries) emit("waiting", null);
      return answer;
    } catch (error) {
      if (error instanceof Refused) {
        forget(change.key);
        if (tries) emit("waiting", null);
        throw error;
      }
      emit("waiting", { what: change.what, sentence: error.message });
      await pause(RETRY_SECONDS[Math.min(tries, RETRY_SECONDS.length - 1)]);
    }
  }
}

/** Sends a change and resolves once the server has stored it. `what` describes it in messages. */
export function send(path, body, what) {
  const key = body.key ?? newKey();
  if (path === "/api/labels") emit("answer");
  const withKey = path === "/api/labels" ? { class_event: state.project.class_event, ...body, key } : { ...body, key };
  const change = { key, path, body: withKey, what };
  writeUnsent([...readUnsent(), change]);
  return deliver(change);
}

/** Sends several labels, each with its own key. */
export function sendMany(labels, what) {
  const change = {
    key: newKey(),
    path: "/api/labels/many",
    body: { annotator: state.annotator, labels: labels.map((label) => ({ key: newKey(), class_event: state.project.class_event, ...label })) },
    what,
  };
  writeUnsent([...readUnsent(), change]);
  return deliver(change);
}

/** Sends the changes that an earlier page could not send. Returns how many were saved, and the errors. */
export async function sendUnsent() {
  const refusals = [];
  const changes = readUnsent();
  for (const change of changes) {
    try {
      await deliver(change);
    } catch (error) {
      refusals.push(error.message);
    }
  }
  return { sent: changes.length - refusals.length, refusals };
}

addEventListener("online", retryNow);

// Undoing the last answer, or all answers that were given together.

let lastScreen = new Map();

/** Remembers that these rows were labeled together, by these events, as the last action. */
export function rememberLabeled(rows, events) {
  lastScreen = new Map(rows.map((row, at) => [row, events[at]]));
}

/** Undoes the last answer; returns the updated item. */
export async function undoOne() {
  const answer = await send("/api/undo", { annotator: state.annotator }, "Undoing your last label");
  if (!lastScreen.delete(answer.row)) lastScreen.clear();
  emit("labels", { labeled: answer.labeled });
  return answer.item;
}

/** Undoes the answers that were given together with the last one; returns the items, the last one first. */
export async function undoScreen() {
  if (lastScreen.size < 2) return [await undoOne()];
  const events = [...lastScreen.values()];
  lastScreen.clear();
  const answer = await send("/api/undo", { annotator: state.annotator, events }, `Undoing ${events.length} labels`);
  emit("labels", { labeled: answer.labeled });
  return answer.items;
}

on("answer", () => lastScreen.clear());
on("annotator", () => lastScreen.clear());
