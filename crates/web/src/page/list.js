
// The list of children.

const COLUMNS = [
  { key: "name", title: "Name", cell: (row) => row.name || row.id, order: (row) => (row.name || "\uffff").toLowerCase() },
  { key: "state", title: "State", cell: (row) => row.state, order: (row) => STATES.indexOf(row.state) },
  { key: "sessions", title: "Sessions", number: true, cell: (row) => row.sessions, order: (row) => row.sessions },
  { key: "memory", title: "Memory", number: true, cell: (row) => (row.processes ? bytes(row.memory) : "-"), order: (row) => row.memory },
  { key: "cpu", title: "CPU", number: true, cell: (row) => (row.cpu_percent === null ? "-" : `${row.cpu_percent.toFixed(1)}%`), order: (row) => row.cpu_percent ?? -1 },
  { key: "age", title: "Age", number: true, cell: (row) => (row.started ? span(known.now - row.started) : "-"), order: (row) => -(row.started ?? 0), },
  { key: "restarts", title: "Restarts", number: true, cell: (row) => row.restarts ?? "-", order: (row) => row.restarts ?? -1 },
  { key: "traffic", title: "Msg/min", number: true, cell: (row) => (row.rates && row.traffic ? Math.round(row.rates.messages) : "-"), order: (row) => row.rates?.messages ?? -1 },
  { key: "command", title: "Command", cell: (row) => (row.command ?? [row.why]).join(" "), order: (row) => (row.command ?? []).join(" ") },
];
// The highest come first when such a column is chosen.
const HIGHEST_FIRST = new Set(["sessions", "memory", "cpu", "restarts", "traffic"]);
const lines = new Map();

function makeHeadings() {
  for (const column of COLUMNS) {
    const heading = make("th", `c-${column.key}${column.number ? " number" : ""}`);
    heading.scope = "col";
    const button = make("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => sortBy(column.key));
    heading.append(button);
    $("headings").append(heading);
  }
}

function sortBy(key) {
  chosen.descending = chosen.sort === key ? !chosen.descending : HIGHEST_FIRST.has(key);
  chosen.sort = key;
  showHeadings();
  showList();
}

function showHeadings() {
  COLUMNS.forEach((column, index) => {
    const heading = $("headings").children[index];
    if (column.key !== chosen.sort) heading.removeAttribute("aria-sort");
    else heading.setAttribute("aria-sort", chosen.descending ? "descending" : "ascending");
  });
}

function isWanted(row) {
  if (chosen.states.size && !chosen.states.has(row.state)) return false;
  if (!chosen.filter) return true;
  const users = row.used_by.map((user) => `${user.program} ${user.session ?? ""}`);
  const text = [row.id, row.name, row.key, row.slot, row.session, ...(row.command ?? []), ...users].join(" ").toLowerCase();
  return chosen.filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function inOrder(rows) {
  const order = COLUMNS.find((column) => column.key === chosen.sort)?.order ?? ((row) => row.started ?? Infinity);
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const sign = chosen.descending ? -1 : 1;
  return rows.sort((a, b) => sign * compare(order(a), order(b)) || compare(a.started ?? Infinity, b.started ?? Infinity) || compare(a.id, b.id));
}

function makeLine(row) {
  const line = make("tr");
  line.dataset.id = row.id;
  line.tabIndex = -1;
  for (const column of COLUMNS) line.append(make("td", `c-${column.key}${column.number ? " number" : ""}`));
  return line;
}

function showLine(line, row) {
  COLUMNS.forEach((column, index) => {
    const cell = line.children[index];
    say(cell, column.cell(row));
    if (column.key === "state") cell.className = `c-state state ${COLOURS[row.state] ?? "dim"}`;
    if (column.key === "name" || column.key === "command") cell.title = shown(column.cell(row));
  });
  line.setAttribute("aria-selected", String(row.id === chosen.id));
}

function showList() {
  const rows = inOrder([...known.rows.values()].filter(isWanted));
  for (const id of lines.keys()) if (!known.rows.has(id)) lines.delete(id);
  const wanted = rows.map((row) => {
    if (!lines.has(row.id)) lines.set(row.id, makeLine(row));
    showLine(lines.get(row.id), row);
    return lines.get(row.id);
  });
  arrange($("rows"), wanted);
  // Tab reaches one line, the arrows the others.
  const reached = wanted.find((line) => line.dataset.id === chosen.id) ?? wanted[0];
  for (const line of wanted) line.tabIndex = line === reached ? 0 : -1;
  showEmpty(rows.length);
  showChips();
}

function showEmpty(count) {
  $("empty").hidden = count > 0 || !document.body.classList.contains("live");
  const none = "Nothing runs under nostray. `nostray wrap` puts it in front of your servers.";
  say($("empty"), known.rows.size ? `No child matches; there are ${known.rows.size}.` : none);
}

function showChips() {
  const counts = new Map();
  for (const row of known.rows.values()) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  for (const state of chosen.states) if (!counts.has(state)) counts.set(state, 0);
  const chips = STATES.filter((state) => counts.has(state)).map((state) => {
    const id = `chip-${state}`;
    const chip = $(id) ?? Object.assign(make("button"), { id, type: "button", onclick: () => toggleState(state) });
    chip.setAttribute("aria-pressed", String(chosen.states.has(state)));
    return say(chip, `${state} ${counts.get(state)}`);
  });
  arrange($("chips"), chips);
}

function toggleState(state) {
  if (!chosen.states.delete(state)) chosen.states.add(state);
  showList();
}

function showTotals() {
  const rows = [...known.rows.values()];
  const sum = (value) => rows.reduce((total, row) => total + value(row), 0);
  const sessions = sum((row) => row.sessions), saved = sum((row) => row.saved.sharing + row.saved.sleeping);
  const used = sum((row) => row.memory);
  const children = counted(rows.length, "child", "children");
  say($("totals"), `${counted(sessions, "session", "sessions")}, ${children}: ${bytes(used)} used${saved ? `, ${bytes(saved)} saved` : ""}`);
}

function step(by) {
  const all = [...$("rows").children];
  if (!all.length) return;
  const at = all.findIndex((line) => line === document.activeElement || line.dataset.id === chosen.id);
  const next = by === "first" ? 0 : by === "last" ? all.length - 1 : Math.min(all.length - 1, Math.max(0, at + by));
  const line = all[at < 0 && typeof by === "number" ? 0 : next];
  choose(line.dataset.id);
  line.focus();
}
