// The page: loads the project, shows the view named by the URL fragment, handles keys, and follows server events.

import { request, newKey } from "./api.js";
import { refreshProject } from "./classes.js";
import { openExport, openKeys, openAnnotator } from "./dialogs.js";
import { byId, h, visibleText, isolated } from "./dom.js";
import { state, setProject, on, emit } from "./state.js";
import { COMMANDS, listenToKeys } from "./keys.js";
import { makeLabelView } from "./label.js";
import { showNotice, announce, watchOutbox, showError } from "./notices.js";
import { sendUnsent, retryNow } from "./outbox.js";
import * as queue from "./queue.js";
import { formatNumber, plural, withInterval } from "./format.js";

const VIEWS = {
  label: async () => makeLabelView,
  grid: async () => (await import("./grid.js")).makeGridView,
  items: async () => (await import("./items.js")).makeItemsView,
  map: async () => (await import("./map.js")).makeMapView,
  curve: async () => (await import("./curve.js")).makeCurveView,
  review: async () => (await import("./review.js")).makeReviewView,
};
const NAME_STORAGE = "dubito.annotator";

let view = null;

/** The name of the view in the URL fragment, and its parameters after "?". */
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
    await request("/api/round", { method: "POST", body: {} });
    const hasLabels = state.project.labeled > 0;
    showNotice(hasLabels ? "Training on the labels so far; the next round is picked afterwards." : "Nothing is labeled yet, so there is no model to train: new items are picked.", "", "round");
  } catch (error) {
    showError(error);
  }
}

/** Explains a key that has no effect here. */
function explainKey(key) {
  if (key === "Backspace") showNotice("Nothing to undo in this view: undo works in Label, Grid, Items and Review.");
  else if (/^[0-9]$/.test(key) && state.classes.length === 0) showNotice("There is no class yet: press + in the Label view to add one.");
  else return false;
  return true;
}

function handleKey(key, event) {
  if (key === "?") return openKeys(), true;
  if (view?.onKey?.(key, event)) return true;
  const command = COMMANDS.find(([name]) => name === key);
  if (!command) return explainKey(key);
  if (key === "t") train();
  else if (key === "h") showNotice("The model's guess is shown in the label view: press L, then H.");
  else location.hash = Object.keys(VIEWS).find((name) => name[0] === key);
  return true;
}

function setAnnotator(name) {
  const before = state.annotator;
  state.annotator = name;
  localStorage.setItem(NAME_STORAGE, name);
  byId("annotator").textContent = visibleText(name);
  if (!before) return;
  releaseLeases(before);
  queue.restart().then(showView, showError);
}

/** Ends the leases of an annotator. */
function releaseLeases(annotator) {
  // Not sendBeacon: with a strict referrer policy it sends no origin, and the server would reject it.
  const headers = { "Content-Type": "application/json" };
  fetch(
    "/api/release",
    { method: "POST", body: JSON.stringify({ annotator }), headers, keepalive: true },
  ).catch(() => {});
}

function subscribe() {
  watchOutbox();
  followStatus();
  on("annotator", setAnnotator);
  on("train", train);
  on(
    "round",
    (data) => data.picks && showNotice(`Round ${data.round}: ${plural(data.picks, "new pick")} from the whole pool.`, "", "round"),
  );
  on("model", (model) => model.state === "failed" && showNotice(model.message, "wrong"));
  addEventListener("hashchange", () => showView().catch(showError));
  addEventListener("pagehide", () => releaseLeases(state.annotator));
  addEventListener("pageshow", (event) => event.persisted && queue.restart().then(showView, showError));
  byId("open-keys").addEventListener("click", openKeys);
  byId("open-export").addEventListener("click", openExport);
  byId("open-annotator").addEventListener("click", openAnnotator);
  document.querySelector(".jump").addEventListener("click", (event) => {
    event.preventDefault();
    byId("view").focus();
  });
  listenToKeys(handleKey);
}

async function start() {
  setAnnotator(localStorage.getItem(NAME_STORAGE) ?? `guest-${newKey().slice(0, 4)}`);
  await refreshProject();
  drawStatus();
  subscribe();
  followServer(() => refreshProject().catch(() => emit("connected", false)));
  const { sent, refusals } = await sendUnsent();
  if (sent) showNotice(`${plural(sent, "change")} that waited in this browser ${sent === 1 ? "is" : "are"} saved now.`);
  for (const sentence of refusals) showNotice(sentence, "wrong");
  await showView();
  announce(`${state.project.name}: ready.`);
}

start().catch((error) => {
  byId("view").replaceChildren(h("p", { class: "empty" }, `${error.message} Reload the page to try again.`));
});

// The status line under the project's name: the number of labels, and the model's accuracy.

const ACCURACY_MEANING = {
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
  byId("project-name").textContent = visibleText(project.name);
  document.title = `${isolated(project.name)} · dubito`;
  const labels = `${formatNumber(project.labeled)} of ${formatNumber(project.items)} labeled`;
  const model = h(
    "span",
    { class: `model is-${project.model.state}`, title: project.model.message || ACCURACY_MEANING[project.model.basis] || "" },
    modelStatus(project.model),
  );
  const restriction = project.restricted === null || project.restricted === undefined ? null : h(
    "span",
    null,
    `only ${formatNumber(project.restricted)} asked about`,
  );
  byId("project-status").replaceChildren(h("span", null, labels), model, ...(restriction ? [restriction] : []));
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

const RECONNECT_MS = 3000;

function parseData(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
}

/** Listens until the page is closed; `refresh` loads the project again after a disconnection or a change. */
function followServer(refresh) {
  let wasDisconnected = false;
  const source = new EventSource("/api/events");
  source.addEventListener("open", () => {
    emit("connected", true);
    if (!wasDisconnected) return;
    wasDisconnected = false;
    retryNow();
    refresh();
  });
  source.addEventListener("error", () => {
    wasDisconnected = true;
    emit("connected", false);
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => followServer(refresh), RECONNECT_MS);
  });
  source.addEventListener("labels", (event) => emit("labels", parseData(event)));
  source.addEventListener("model", (event) => {
    state.project.model = parseData(event) ?? state.project.model;
    emit("model", state.project.model);
  });
  source.addEventListener("round", (event) => {
    const data = parseData(event) ?? {};
    setProject({ ...state.project, round: data.round ?? state.project.round, progress: data.progress ?? state.project.progress });
    emit("round", data);
  });
  source.addEventListener("project", refresh);
  source.addEventListener("items", (event) => {
    refresh();
    for (const note of parseData(event)?.notes ?? []) showNotice(`${note.charAt(0).toUpperCase()}${note.slice(1)}`);
  });
  source.addEventListener("map", () => emit("map"));
}
