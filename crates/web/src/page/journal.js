
// The journal: of all children with filters, and of the chosen one.

const MAX_ENTRIES = 500, MAX_OWN = 100;
let entryNumber = 0;

function takeEntries(entries) {
  for (const entry of entries) {
    entry.number = entryNumber++;
    known.journal.push(entry);
  }
  known.journal.splice(0, Math.max(0, known.journal.length - MAX_ENTRIES));
}

function makeEntry(entry, isOwn) {
  const item = make("li");
  item.dataset.number = entry.number;
  const time = make("time", "", timeOfDay(entry.time));
  time.dateTime = new Date(entry.time).toISOString();
  time.title = moment(entry.time);
  item.append(time);
  if (!isOwn) {
    const button = make("button", "", entry.id);
    button.type = "button";
    button.addEventListener("click", () => {
      choose(entry.id.split(".")[0]);
      openDetails();
    });
    item.append(button);
  }
  item.append(make("span", entry.ink, entry.head), make("span", "", entry.tail));
  return item;
}

function matches(entry) {
  if (chosen.kind && entry.event !== chosen.kind) return false;
  const text = `${entry.id} ${entry.head}${entry.tail} ${known.rows.get(entry.id)?.name ?? ""}`.toLowerCase();
  return chosen.journal.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// The newest first. Entries that are there already stay as they are.
function showEntries(list, entries, isOwn) {
  const there = new Map([...list.children].map((item) => [item.dataset.number, item]));
  arrange(list, entries.map((entry) => there.get(String(entry.number)) ?? makeEntry(entry, isOwn)).reverse());
}

function showJournal() {
  const entries = known.journal.filter(matches);
  showEntries($("journal"), entries, false);
  $("journal-empty").hidden = entries.length > 0;
  showKinds();
}

function showKinds() {
  const kinds = [...new Set(known.journal.map((entry) => entry.event))].sort();
  if (chosen.kind && !kinds.includes(chosen.kind)) kinds.push(chosen.kind);
  const select = $("journal-kind");
  for (const kind of kinds) {
    if ([...select.options].some((option) => option.value === kind)) continue;
    const option = make("option", "", kind);
    option.value = kind;
    select.append(option);
  }
}

// The children of one keeper have its id with a number behind a point.
const isOf = (entry, id) => entry.id === id || entry.id.startsWith(`${id}.`);

function showOwnJournal(row) {
  showEntries($("own-journal"), known.journal.filter((entry) => isOf(entry, row.id)).slice(-MAX_OWN), true);
}
