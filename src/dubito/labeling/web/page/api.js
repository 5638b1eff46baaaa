// Asking the server. Whatever goes wrong comes back as one plain sentence.

import { plain } from "./dom.js";

/** The server answered, and said no. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** No answer, or one that may be another in a moment. */
export class Unreachable extends Error {}

const PASSING = new Set([401, 408, 425, 429]);

async function sentenceOf(answer) {
  try {
    const body = await answer.json();
    if (typeof body.error === "string") return plain(body.error);
  } catch {
    // Not JSON: the status has to do.
  }
  if (answer.status === 401) return "You are signed out. Open the address that dubito label printed.";
  return `The server answered ${answer.status} ${answer.statusText}.`.replace(" .", ".");
}

async function raise(answer) {
  const sentence = await sentenceOf(answer);
  if (answer.status >= 500 || PASSING.has(answer.status)) {
    throw Object.assign(new Unreachable(sentence), { status: answer.status });
  }
  throw new Refused(answer.status, sentence);
}

/** JSON in, JSON out. `seconds` is how long an answer may take. */
export async function ask(path, { method = "GET", body, seconds = 30, headers } = {}) {
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
    throw new Unreachable("The server's answer broke off.");
  }
}

/** A key by which the server knows a change again. Also where the page is not a secure context. */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
