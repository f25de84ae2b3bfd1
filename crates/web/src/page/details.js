
// The chosen child: what is known of it, its plots, and what can be done to it.

const PER_MINUTE = (field) => (sample, before) => {
  if (!before || sample[0] <= before[0]) return null;
  return (Math.max(0, sample[field] - before[field]) * 60000) / (sample[0] - before[0]);
};
const rate = (value) => (value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(1));
const plots = {};
const MAX_SAMPLES = 300;
let samples = [], samplesOf = null;

function makePlots() {
  plots.memory = new Plot($("memory-plot"), "Memory", [(sample) => sample[1]], bytes);
  plots.traffic = new Plot($("traffic-plot"), "Messages / errors a minute", [PER_MINUTE(2), PER_MINUTE(4)], rate);
}

function choose(id) {
  chosen.id = id;
  for (const [known, line] of lines) {
    line.setAttribute("aria-selected", String(known === id));
    line.tabIndex = known === id ? 0 : -1;
  }
  if (!$("details").hidden) openDetails(false);
}

async function openDetails(takesFocus = true) {
  const row = chosenRow();
  if (!row) return;
  $("details").hidden = false;
  document.body.classList.add("has-details");
  if (samplesOf !== row.id) {
    [samples, samplesOf] = [[], row.id];
    delete $("tree").dataset.key;
    $("own-journal").replaceChildren();
  }
  showDetails();
  if (takesFocus) {
    $("details").focus({ preventScroll: true });
    // On a wide screen the details stand beside the list.
    if (innerWidth < 1000) $("details").scrollIntoView({ block: "start" });
  }
  await loadHistory(row.id);
}

async function loadHistory(id) {
  try {
    const answer = await fetch(`/api/history?id=${encodeURIComponent(id)}`);
    const before = answer.ok ? await answer.json() : [];
    if (samplesOf === id) samples = before;
  } catch {
    // The connection is lost, and the header says so.
  }
  if (samplesOf === id) showPlots();
}

// A look has been made: the chosen child has one more sample.
function addSample() {
  const row = chosenRow();
  if (!row || samplesOf !== row.id) return;
  const traffic = row.traffic ?? { messages: 0, calls: 0, errors: 0 };
  if (known.now > (samples.at(-1)?.[0] ?? 0) + 300) samples.push([known.now, row.memory, traffic.messages, traffic.calls, traffic.errors]);
  samples.splice(0, Math.max(0, samples.length - MAX_SAMPLES));
}

function closeDetails() {
  $("details").hidden = true;
  document.body.classList.remove("has-details");
  (lines.get(chosen.id) ?? $("filter")).focus();
}

function showDetails() {
  if ($("details").hidden) return;
  const row = chosenRow();
  if (!row) return showGone();
  say($("details-name"), row.name || row.id);
  say($("details-state"), row.state).className = `state ${COLOURS[row.state] ?? "dim"}`;
  say($("details-id"), row.id);
  const why = row.why ?? row.reason ?? "";
  $("details-why").hidden = !why;
  say($("details-why"), why);
  $("restart").disabled = row.generation === null || row.generation === undefined || row.state === "asleep";
  $("restart").title = $("restart").disabled ? "Only a supervised or shared child that runs can be restarted" : "Restart (r)";
  $("stop").disabled = Boolean(row.why);
  showFacts(row);
  showTree(row);
  showMethods(row);
  showHolders(row);
  showOwnJournal(row);
  showPlots();
}

function showGone() {
  say($("details-state"), "has ended").className = "state dim";
  $("restart").disabled = $("stop").disabled = true;
  showOwnJournal({ id: chosen.id });
}

function showPlots() {
  $("traffic-plot").hidden = !chosenRow()?.traffic;
  plots.memory.show(samples);
  if (!$("traffic-plot").hidden) plots.traffic.show(samples);
}

function showFacts(row) {
  const labels = Object.entries(row.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ");
  const saved = [["sharing", row.saved.sharing], ["sleeping", row.saved.sleeping]].filter(([, number]) => number);
  const facts = {
    Command: (row.command ?? []).join(" "),
    Directory: row.cwd,
    Since: row.started && `${moment(row.started)} (${span(known.now - row.started)}); ${row.state} for ${span(known.now - row.since)}`,
    Uses: `${bytes(row.memory)} in ${counted(row.processes, "process", "processes")}, ${row.cpu_percent ?? 0}% of a processor`,
    Saves: saved.map(([how, number]) => `${bytes(number)} by ${how}`).join(", "),
    Status: row.status,
    Session: row.session,
    Key: row.key,
    Slot: row.slot,
    Labels: labels,
    "Not shared": row.because,
    Restarts: row.restarts,
    "Last exit": row.last_exit && `${row.last_exit.how}, ${moment(row.last_exit.time)}`,
    Contained: row.tier === "none" ? "" : row.tier && `by ${row.tier}`,
  };
  const told = Object.entries(facts).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== 0);
  const list = $("facts");
  const there = new Map([...list.querySelectorAll("dt")].map((dt) => [dt.textContent, [dt, dt.nextElementSibling]]));
  arrange(list, told.flatMap(([name, value]) => {
    const [dt, dd] = there.get(name) ?? [make("dt", "", name), make("dd", name === "Command" || name === "Directory" ? "mono" : "")];
    say(dd, value);
    return [dt, dd];
  }));
}

// As many lines as there are entries, each with as many cells as there are texts.
function showTable(table, entries) {
  const body = table.tBodies[0];
  while (body.rows.length > entries.length) body.deleteRow(-1);
  entries.forEach((texts, index) => {
    const line = body.rows[index] ?? body.insertRow();
    texts.forEach((text, column) => {
      const cell = line.cells[column] ?? line.insertCell();
      say(cell, text);
      cell.title = shown(text);
    });
  });
}

function showMethods(row) {
  const methods = row.traffic?.methods ?? [];
  $("methods-part").hidden = !methods.length;
  const mean = (method) => (method.mean === null ? "-" : `${method.mean} ms`);
  showTable($("methods"), methods.map((method) => [method.name, method.calls, method.errors, mean(method)]));
}

function showHolders(row) {
  say($("holders-title"), row.is_shared ? `Held by ${counted(row.sessions, "session", "sessions")}` : "Used by");
  const holders = row.used_by.map((user) => [user.program, user.pid, user.session ?? "-", span(known.now - user.since)]);
  const more = row.is_shared ? row.sessions - holders.length : 0;
  if (more > 0) holders.push([`… ${more} more`, "", "", ""]);
  $("holders").hidden = !holders.length;
  showTable($("holders"), holders);
}

// Asks, and does it once.
let confirmed = null;

function ask(action) {
  const row = chosenRow();
  if (!row || $("confirm").open || $(action).disabled && !$("details").hidden) return;
  const name = row.name && row.name !== row.id ? `${row.name} (${row.id})` : row.id;
  const held = row.is_shared ? counted(row.sessions, "session uses", "sessions use") + " it. " : "";
  const texts = {
    restart: ["Restart", `${held}As soon as no call is in flight, the child is ended and a new one is started. Its sessions go on.`],
    stop: ["Stop", `${held}The child and its whole process tree are ended.`],
  };
  const [title, text] = texts[action];
  say($("confirm-title"), `${title} ${name}?`);
  say($("confirm-text"), text);
  say($("confirm-yes"), title);
  confirmed = { action, id: row.id, name, title };
  $("confirm").showModal();
}

async function act({ action, id, name, title }) {
  tell(`${title} ${name}: under way…`, "dim");
  try {
    const answer = await fetch(`/api/${action}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ id }) });
    const told = answer.ok ? await answer.json() : { code: null, said: answer.status === 404 ? "it has ended already" : `the answer is ${answer.status}` };
    tell(`${title} ${name}: ${told.said || (told.code === 0 ? "done" : "failed")}`, told.code === 0 ? "good" : "bad");
  } catch {
    tell(`${title} ${name}: the connection was lost; see the journal`, "bad");
  }
}

function tell(text, colour) {
  $("result").hidden = false;
  say($("result"), text).className = colour;
}
