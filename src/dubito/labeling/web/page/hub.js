// What the page knows of the project, and who wants to hear when it changes.

export const known = { project: null, annotator: "", classes: [] };

const listeners = new Map();

/** Calls `act` on every `tell(what)`; returns the function that ends it. */
export function on(what, act) {
  if (!listeners.has(what)) listeners.set(what, new Set());
  listeners.get(what).add(act);
  return () => listeners.get(what).delete(act);
}

export function tell(what, data) {
  for (const act of [...(listeners.get(what) ?? [])]) act(data);
}

export function learnProject(project) {
  known.project = project;
  known.classes = project.classes;
  tell("project", project);
}
