// The line under the project's name: how many labels there are, and what the model makes of them.

import { byId, h, plain, quoted } from "./dom.js";
import { known, on } from "./hub.js";
import { count, within } from "./words.js";

function modelWords(model) {
  if (model.state === "failed") return "the model could not learn";
  const right = model.accuracy === null || model.accuracy === undefined ? "" : `model ${within(model.accuracy, model.low, model.high)}`;
  if (model.state === "fitting") return right ? `${right}, learning` : "the model is learning";
  return right || "no model yet";
}

export function drawStanding() {
  const { project } = known;
  byId("project-name").textContent = plain(project.name);
  document.title = `${quoted(project.name)} · dubito`;
  const labels = `${count(project.labeled)} of ${count(project.items)} labeled`;
  const model = h(
    "span",
    { class: `model is-${project.model.state}`, title: project.model.message || "" },
    modelWords(project.model),
  );
  const limited = project.restricted === null || project.restricted === undefined ? null : h(
    "span",
    null,
    `only ${count(project.restricted)} asked about`,
  );
  byId("standing").replaceChildren(h("span", null, labels), model, ...(limited ? [limited] : []));
}

export function followStanding() {
  on("labels", (data) => {
    if (!data) return;
    known.project.labeled = data.labeled ?? known.project.labeled;
    known.project.skipped = data.skipped ?? known.project.skipped;
    drawStanding();
  });
  on("model", drawStanding);
  on("project", drawStanding);
  on("connected", (yes) => document.body.classList.toggle("is-offline", !yes));
}
