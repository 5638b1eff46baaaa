// The page: reads the project, shows a view by the address's #name, passes keys on, follows the server.

import { ask, freshKey } from "./api.js";
import { refreshProject } from "./classes.js";
import { openExport, openKeys, openWho } from "./dialogs.js";
import { byId, h, plain } from "./dom.js";
import { known, on, tell } from "./hub.js";
import { COMMANDS, listen } from "./keys.js";
import { makeLabelView } from "./label.js";
import { listenToServer } from "./live.js";
import { notice, say, watchOutbox, wrong } from "./notices.js";
import { sendLeftovers } from "./outbox.js";
import * as queue from "./queue.js";
import { drawStanding, followStanding } from "./standing.js";
import { some } from "./words.js";

const VIEWS = {
  label: async () => makeLabelView,
  grid: async () => (await import("./grid.js")).makeGridView,
  map: async () => (await import("./map.js")).makeMapView,
  curve: async () => (await import("./curve.js")).makeCurveView,
  review: async () => (await import("./review.js")).makeReviewView,
};
const NAME = "dubito.annotator";

let view = null;

function wantedView() {
  const name = location.hash.slice(1);
  return name in VIEWS ? name : "label";
}

async function showView() {
  const name = wantedView();
  const make = await VIEWS[name]();
  if (name !== wantedView()) return;
  view?.end?.();
  for (const link of document.querySelectorAll(".views a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = name;
  view = make(byId("view"));
  if (document.activeElement?.closest?.(".views")) byId("view").focus({ preventScroll: true });
}

async function train() {
  try {
    await ask("/api/round", { method: "POST", body: {} });
    notice("Training on the labels so far; the next round is picked after it.");
  } catch (error) {
    wrong(error);
  }
}

/** What a key would do, where it does nothing. */
function explain(key) {
  if (key === "Backspace") notice("Nothing is undone here: undo is under Label, Grid and Review.");
  else if (/^[0-9]$/.test(key) && known.classes.length === 0) notice("There is no class yet: press + under Label to add one.");
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
  const before = known.annotator;
  known.annotator = name;
  localStorage.setItem(NAME, name);
  byId("annotator").textContent = plain(name);
  if (!before) return;
  release(before);
  queue.startAgain().then(showView, wrong);
}

/** Items held for this person are free for others once the page is left. */
function release(annotator) {
  // Not a beacon: under a strict referrer policy that would come without an origin, and be refused.
  const headers = { "Content-Type": "application/json" };
  fetch(
    "/api/release",
    { method: "POST", body: JSON.stringify({ annotator }), headers, keepalive: true },
  ).catch(() => {});
}

function watch() {
  watchOutbox();
  followStanding();
  on("annotator", takeName);
  on("train", train);
  on(
    "round",
    (data) => data.picks && notice(`Round ${data.round}: ${some(data.picks, "new pick")} from the whole pool.`),
  );
  on("model", (model) => model.state === "failed" && notice(model.message, "wrong"));
  addEventListener("hashchange", () => showView().catch(wrong));
  addEventListener("pagehide", () => release(known.annotator));
  addEventListener("pageshow", (event) => event.persisted && queue.startAgain().then(showView, wrong));
  byId("open-keys").addEventListener("click", openKeys);
  byId("open-export").addEventListener("click", openExport);
  byId("open-who").addEventListener("click", openWho);
  document.querySelector(".jump").addEventListener("click", (event) => {
    event.preventDefault();
    byId("view").focus();
  });
  listen(onKey);
}

async function begin() {
  takeName(localStorage.getItem(NAME) ?? `guest-${freshKey().slice(0, 4)}`);
  await refreshProject();
  drawStanding();
  watch();
  listenToServer(() => refreshProject().catch(() => tell("connected", false)));
  const { sent, refusals } = await sendLeftovers();
  if (sent) notice(`${some(sent, "change")} that waited in this browser ${sent === 1 ? "is" : "are"} saved now.`);
  for (const sentence of refusals) notice(sentence, "wrong");
  await showView();
  say(`${known.project.name}: ready.`);
}

begin().catch((error) => {
  byId("view").replaceChildren(h("p", { class: "empty" }, `${error.message} Reload the page to try again.`));
});
