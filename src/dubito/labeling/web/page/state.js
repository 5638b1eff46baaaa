// The state of the project in the page, and events when it changes.

export const state = { project: null, annotator: "", classes: [], keys: {} };

const listeners = new Map();

/** Calls `act` for every `emit(event)`; returns a function that ends the subscription. */
export function on(what, act) {
  if (!listeners.has(what)) listeners.set(what, new Set());
  listeners.get(what).add(act);
  return () => listeners.get(what).delete(act);
}

export function emit(what, data) {
  for (const act of [...(listeners.get(what) ?? [])]) act(data);
}

/** Calls `act` when a class was renamed, merged, removed or restored; returns a function that ends the subscription. */
export function onClassChange(act) {
  let known = state.project.class_event;
  return on("project", (project) => {
    if (project.class_event === known) return;
    known = project.class_event;
    act();
  });
}

export function setProject(project) {
  state.project = project;
  state.classes = project.classes;
  state.keys = project.keys;
  emit("project", project);
}
