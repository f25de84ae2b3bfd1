
// The connection, and what the user presses.

function mark(state, text) {
  document.body.className = `${state}${$("details").hidden ? "" : " has-details"}`;
  say($("connection"), text);
}

function showAll() {
  showTotals();
  showList();
  showDetails();
  showJournal();
  showNotes();
  say($("footer"), `nostray ${known.version}. One look a second, the last took ${(known.took / 1000).toFixed(1)} ms.`);
}

function showNotes() {
  $("notes").hidden = !known.notes.length;
  const there = [...$("notes").children].map((item) => item.textContent).join("\n");
  if (there !== known.notes.map(shown).join("\n")) $("notes").replaceChildren(...known.notes.map((note) => make("li", "", note)));
}

function takeSnapshot(snapshot) {
  known.rows = new Map(snapshot.rows.map((row) => [row.id, row]));
  known.journal = [];
  Object.assign(known, { now: snapshot.now, took: snapshot.took, notes: snapshot.notes, version: snapshot.version });
  takeEntries(snapshot.journal);
  $("journal").replaceChildren();
  $("own-journal").replaceChildren();
  mark("live", "Live");
  showAll();
}

function takeChange(change) {
  for (const id of change.gone) known.rows.delete(id);
  for (const row of change.rows) known.rows.set(row.id, row);
  Object.assign(known, { now: change.now, took: change.took, notes: change.notes });
  takeEntries(change.journal);
  addSample();
  mark("live", "Live");
  showAll();
}

function connect() {
  const events = new EventSource("/api/events");
  const on = (name, take) => events.addEventListener(name, (event) => take(JSON.parse(event.data)));
  on("snapshot", takeSnapshot);
  on("change", takeChange);
  on("end", () => {
    events.close();
    mark("ended", "nostray web has ended");
  });
  events.addEventListener("error", () => {
    if (events.readyState !== EventSource.CLOSED) return mark("lost", "Connection lost; trying again");
    // The browser does not try again after an answer that is no stream, as from another run with another token.
    mark("ended", "nostray web has ended; open the address that it prints when you start it again");
  });
}

const KEYS = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1), Home: () => step("first"), End: () => step("last"),
  "/": () => $("filter").focus(), "?": () => $("help").showModal(), r: () => ask("restart"), s: () => ask("stop"), Enter: () => openDetails(),
  Escape: () => ($("details").hidden ? null : closeDetails()),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target, key } = event;
  if (target.matches("input, select")) {
    if (key === "Escape" && target.matches("input")) target.blur();
    if (target.id !== "filter" || (key !== "ArrowDown" && key !== "Enter")) return;
    event.preventDefault();
    return step("first");
  }
  // A button and the journal have keys of their own.
  if (target.matches("button, a") && key === "Enter") return;
  if (target.closest(".journal") && key !== "Escape" && key.length > 1) return;
  if (!KEYS[key]) return;
  event.preventDefault();
  KEYS[key]();
}

function listen() {
  document.addEventListener("keydown", pressed);
  $("rows").addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (!line) return;
    choose(line.dataset.id);
    openDetails();
  });
  $("filter").addEventListener("input", () => {
    chosen.filter = $("filter").value.trim();
    showList();
  });
  $("journal-filter").addEventListener("input", () => {
    chosen.journal = $("journal-filter").value.trim();
    showJournal();
  });
  $("journal-kind").addEventListener("change", () => {
    chosen.kind = $("journal-kind").value;
    showJournal();
  });
  $("restart").addEventListener("click", () => ask("restart"));
  $("stop").addEventListener("click", () => ask("stop"));
  $("back").addEventListener("click", closeDetails);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  $("confirm-no").addEventListener("click", () => $("confirm").close());
  $("confirm-yes").addEventListener("click", () => {
    $("confirm").close();
    const now = confirmed;
    confirmed = null;
    if (now) act(now);
  });
  window.addEventListener("resize", () => {
    delete $("tree").dataset.key;
    showDetails();
  });
}

makeHeadings();
showHeadings();
makePlots();
listen();
connect();
