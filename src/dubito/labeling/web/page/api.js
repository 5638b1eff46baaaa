// Requests to the server. Every error has a message for the user.

import { visibleText } from "./dom.js";

/** The server rejected the request. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** There is no response, or a temporary error: the request can be repeated. */
class Unreachable extends Error {}

const TEMPORARY = new Set([401, 408, 425, 429]);

async function errorMessage(answer) {
  try {
    const body = await answer.json();
    if (typeof body.error === "string") return visibleText(body.error);
  } catch {
    // Not JSON: use the status.
  }
  if (answer.status === 401) return "You are signed out. Open the address that dubito label printed.";
  return `The server answered ${answer.status} ${answer.statusText}.`.replace(" .", ".");
}

async function raise(answer) {
  const sentence = await errorMessage(answer);
  if (answer.status >= 500 || TEMPORARY.has(answer.status)) {
    throw Object.assign(new Unreachable(sentence), { status: answer.status });
  }
  throw new Refused(answer.status, sentence);
}

/** Sends and receives JSON. `seconds` is the timeout. */
export async function request(path, { method = "GET", body, seconds = 30, headers } = {}) {
  const given = { method, headers: { ...headers }, signal: AbortSignal.timeout(1000 * seconds) };
  if (body !== undefined) {
    given.headers["Content-Type"] = "application/json";
    given.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, given);
  } catch {
    throw new Unreachable("The server does not answer.");
  }
  if (answer.status === 304) return null;
  if (!answer.ok) await raise(answer);
  try {
    return answer.status === 204 ? null : await answer.json();
  } catch {
    throw new Unreachable("The server's response is incomplete.");
  }
}

/** A random idempotency key. Unlike crypto.randomUUID, it does not need a secure context. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
