// What the server tells as it happens: labels of others, the model's state, new rounds.

import { known, learnProject, tell } from "./hub.js";
import { tryNow } from "./outbox.js";

const AGAIN = 3000;

function parsed(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
}

/** Listens until the page is closed; `refresh` reads the project anew after a gap or a change. */
export function listenToServer(refresh) {
  let missed = false;
  const source = new EventSource("/api/events");
  source.addEventListener("open", () => {
    tell("connected", true);
    if (!missed) return;
    missed = false;
    tryNow();
    refresh();
  });
  source.addEventListener("error", () => {
    missed = true;
    tell("connected", false);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => listenToServer(refresh), AGAIN);
  });
  source.addEventListener("labels", (event) => tell("labels", parsed(event)));
  source.addEventListener("model", (event) => {
    known.project.model = parsed(event) ?? known.project.model;
    tell("model", known.project.model);
  });
  source.addEventListener("round", (event) => {
    const data = parsed(event) ?? {};
    learnProject({ ...known.project, round: data.round ?? known.project.round });
    tell("round", data);
  });
  source.addEventListener("project", refresh);
  source.addEventListener("map", () => tell("map"));
}
