
// What the page knows, and how it writes into the document: always as text, never as markup.

const known = { rows: new Map(), journal: [], notes: [], now: Date.now(), took: 0, version: "" };
// What the user has chosen.
const chosen = { id: null, sort: "started", descending: false, filter: "", states: new Set(), journal: "", kind: "" };

const $ = (id) => document.getElementById(id);

function say(element, text) {
  const wanted = shown(text);
  // Writing the same text again would disturb a selection, and screen readers.
  if (element.textContent !== wanted) element.textContent = wanted;
  return element;
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) say(element, text);
  return element;
}

function makeSvg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = shown(text);
  return element;
}

// Moves only what is not in its place, so that nothing flickers and a focused element keeps its focus.
function arrange(parent, elements) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const wanted = new Set(elements);
  for (const old of [...parent.children]) if (!wanted.has(old)) old.remove();
  elements.forEach((element, index) => {
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
  });
  if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

const chosenRow = () => known.rows.get(chosen.id);
