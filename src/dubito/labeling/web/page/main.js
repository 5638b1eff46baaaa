// The page: loads the project, shows the view named by the URL fragment, handles keys, and follows server events.

import { ask, newKey } from "./api.js";
import { refreshProject } from "./classes.js";
import { openExport, openKeys, openAnnotator } from "./dialogs.js";
import { byId, h, plain, quoted } from "./dom.js";
import { state, setProject, on, emit } from "./state.js";
import { COMMANDS, listen } from "./keys.js";
import { makeLabelView } from "./label.js";
import { notice, say, watchOutbox, wrong } from "./notices.js";
import { sendUnsent, retryNow } from "./outbox.js";
import * as queue from "./queue.js";
import { count, some, withInterval } from "./format.js";

const VIEWS = {
  label: async () => makeLabelView,
  grid: async () => (await import("./grid.js")).makeGridView,
  items: async () => (await import("./items.js")).makeItemsView,
  map: async () => (await import("./map.js")).makeMapView,
  curve: async () => (await import("./curve.js")).makeCurveView,
  review: async () => (await import("./review.js")).makeReviewView,
};
const NAME = "dubito.annotator";

let view = null;

/** The view's name, and what follows it after "?". */
function requestedView() {
  const [name, filters] = location.hash.slice(1).split("?");
  return { name: name in VIEWS ? name : "label", filters: new URLSearchParams(filters) };
}

async function showView() {
  const { name, filters } = requestedView();
  const make = await VIEWS[name]();
  if (name !== requestedView().name) return;
  view?.end?.();
  for (const link of document.querySelectorAll(".views a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = name;
  view = make(byId("view"), filters);
  if (document.activeElement?.closest?.(".views")) byId("view").focus({ preventScroll: true });
}

async function train() {
  try {
    await ask("/api/round", { method: "POST", body: {} });
    const has = state.project.labeled > 0;
    notice(has ? "Training on the labels so far; the next round is picked afterwards." : "Nothing is labeled yet, so there is no model to train: new items are picked.", "", "round");
  } catch (error) {
    wrong(error);
  }
}

/** Explains a key that has no effect here. */
function explain(key) {
  if (key === "Backspace") notice("Nothing to undo in this view: undo works in Label, Grid, Items and Review.");
  else if (/^[0-9]$/.test(key) && state.classes.length === 0) notice("There is no class yet: press + in the Label view to add one.");
  else return false;
  return true;
}

function onKey(key, event) {
  if (key === "?") return openKeys(), true;
  if (view?.onKey?.(key, event)) return true;
  const command = COMMANDS.find(([name]) => name === key);
  if (!command) return explain(key);
  if (key === "t") train();
  else if (key === "h") notice("The model's guess is shown in the label view: press L, then H.");
  else location.hash = Object.keys(VIEWS).find((name) => name[0] === key);
  return true;
}

function takeName(name) {
  const before = state.annotator;
  state.annotator = name;
  localStorage.setItem(NAME, name);
  byId("annotator").textContent = plain(name);
  if (!before) return;
  release(before);
  queue.restart().then(showView, wrong);
}

/** Releases the items leased to an annotator. */
function release(annotator) {
  // Not a beacon: with a strict referrer policy it has no origin, and the server would reject it.
  const headers = { "Content-Type": "application/json" };
  fetch(
    "/api/release",
    { method: "POST", body: JSON.stringify({ annotator }), headers, keepalive: true },
  ).catch(() => {});
}

function watch() {
  watchOutbox();
  followStatus();
  on("annotator", takeName);
  on("train", train);
  on(
    "round",
    (data) => data.picks && notice(`Round ${data.round}: ${some(data.picks, "new pick")} from the whole pool.`, "", "round"),
  );
  on("model", (model) => model.state === "failed" && notice(model.message, "wrong"));
  addEventListener("hashchange", () => showView().catch(wrong));
  addEventListener("pagehide", () => release(state.annotator));
  addEventListener("pageshow", (event) => event.persisted && queue.restart().then(showView, wrong));
  byId("open-keys").addEventListener("click", openKeys);
  byId("open-export").addEventListener("click", openExport);
  byId("open-annotator").addEventListener("click", openAnnotator);
  document.querySelector(".jump").addEventListener("click", (event) => {
    event.preventDefault();
    byId("view").focus();
  });
  listen(onKey);
}

async function begin() {
  takeName(localStorage.getItem(NAME) ?? `guest-${newKey().slice(0, 4)}`);
  await refreshProject();
  drawStatus();
  watch();
  followServer(() => refreshProject().catch(() => emit("connected", false)));
  const { sent, refusals } = await sendUnsent();
  if (sent) notice(`${some(sent, "change")} that waited in this browser ${sent === 1 ? "is" : "are"} saved now.`);
  for (const sentence of refusals) notice(sentence, "wrong");
  await showView();
  say(`${state.project.name}: ready.`);
}

begin().catch((error) => {
  byId("view").replaceChildren(h("p", { class: "empty" }, `${error.message} Reload the page to try again.`));
});

// The status line under the project's name: the number of labels, and the model's accuracy.

const MEANING = {
  drawn: "Of the items without a label: an estimate from labels of items drawn at random, with its interval",
  "held out": "On labels that the model was not trained on, with its interval",
};

function modelStatus(model) {
  if (model.state === "failed") return "the model could not learn";
  const known = model.accuracy !== null && model.accuracy !== undefined;
  const name = model.basis === "drawn" ? "accuracy" : "held-out accuracy";
  const right = known ? `${name} ${withInterval(model.accuracy, model.low, model.high)}` : "";
  if (model.state === "fitting") return right ? `${right}, learning` : "the model is learning";
  return right || "no model yet";
}

function drawStatus() {
  const { project } = state;
  byId("project-name").textContent = plain(project.name);
  document.title = `${quoted(project.name)} · dubito`;
  const labels = `${count(project.labeled)} of ${count(project.items)} labeled`;
  const model = h(
    "span",
    { class: `model is-${project.model.state}`, title: project.model.message || MEANING[project.model.basis] || "" },
    modelStatus(project.model),
  );
  const limited = project.restricted === null || project.restricted === undefined ? null : h(
    "span",
    null,
    `only ${count(project.restricted)} asked about`,
  );
  byId("project-status").replaceChildren(h("span", null, labels), model, ...(limited ? [limited] : []));
}

function followStatus() {
  on("labels", (data) => {
    if (!data) return;
    state.project.labeled = data.labeled ?? state.project.labeled;
    state.project.skipped = data.skipped ?? state.project.skipped;
    state.project.progress = data.progress ?? state.project.progress;
    drawStatus();
  });
  on("model", drawStatus);
  on("project", drawStatus);
  on("connected", (yes) => document.body.classList.toggle("is-offline", !yes));
}

// Server events: labels of other annotators, the model's state, new rounds.

const AGAIN = 3000;

function parsed(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
}

/** Listens until the page is closed; `refresh` loads the project again after a disconnection or a change. */
function followServer(refresh) {
  let missed = false;
  const source = new EventSource("/api/events");
  source.addEventListener("open", () => {
    emit("connected", true);
    if (!missed) return;
    missed = false;
    retryNow();
    refresh();
  });
  source.addEventListener("error", () => {
    missed = true;
    emit("connected", false);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => followServer(refresh), AGAIN);
  });
  source.addEventListener("labels", (event) => emit("labels", parsed(event)));
  source.addEventListener("model", (event) => {
    state.project.model = parsed(event) ?? state.project.model;
    emit("model", state.project.model);
  });
  source.addEventListener("round", (event) => {
    const data = parsed(event) ?? {};
    setProject({ ...state.project, round: data.round ?? state.project.round, progress: data.progress ?? state.project.progress });
    emit("round", data);
  });
  source.addEventListener("project", refresh);
  source.addEventListener("items", (event) => {
    refresh();
    for (const note of parsed(event)?.notes ?? []) notice(`${note.charAt(0).toUpperCase()}${note.slice(1)}`);
  });
  source.addEventListener("map", () => emit("map"));
}
