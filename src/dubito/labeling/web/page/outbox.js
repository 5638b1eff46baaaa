// Changes on their way to the server. Each is kept in localStorage until it is answered, and is sent again with the
// same key as long as nobody answers: nothing is lost, nothing is doubled.

import { ask, freshKey, Refused } from "./api.js";
import { known, tell } from "./hub.js";

const WAITS = [0.5, 1, 2, 3, 5];

let wake = null;

function place() {
  return `dubito.unsent.${known.project.ident}`;
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(place())) ?? [];
  } catch {
    return [];
  }
}

function write(changes) {
  try {
    if (changes.length) localStorage.setItem(place(), JSON.stringify(changes));
    else localStorage.removeItem(place());
  } catch {
    // No room, or none allowed: the change is still in memory, and the person sees it wait.
  }
}

function forget(key) {
  write(read().filter((change) => change.key !== key));
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

/** Tries at once what waits, instead of in a few seconds. */
export function tryNow() {
  wake?.();
}

async function deliver(change) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await ask(change.path, { method: "POST", body: change.body, seconds: 15 });
      forget(change.key);
      if (tries) tell("waiting", null);
      return answer;
    } catch (error) {
      if (error instanceof Refused) {
        forget(change.key);
        if (tries) tell("waiting", null);
        throw error;
      }
      tell("waiting", { what: change.what, sentence: error.message, tries: tries + 1 });
      await pause(WAITS[Math.min(tries, WAITS.length - 1)]);
    }
  }
}

/** Sends a change and resolves once the server has it on disk. `what` is said while it waits. */
export function send(path, body, what) {
  const key = body.key ?? freshKey();
  if (path === "/api/labels") tell("answer");
  const change = { key, path, body: { ...body, key }, what };
  write([...read(), change]);
  return deliver(change);
}

/** Several labels, each with a key of its own. */
export function sendMany(labels, what) {
  const change = {
    key: freshKey(),
    path: "/api/labels/many",
    body: { annotator: known.annotator, labels: labels.map((label) => ({ key: freshKey(), ...label })) },
    what,
  };
  write([...read(), change]);
  return deliver(change);
}

/** What an earlier page could not send. Returns how many changes went through, and what was refused. */
export async function sendLeftovers() {
  const refusals = [];
  const changes = read();
  for (const change of changes) {
    try {
      await deliver(change);
    } catch (error) {
      refusals.push(error.message);
    }
  }
  return { sent: changes.length - refusals.length, refusals };
}

addEventListener("online", tryNow);
