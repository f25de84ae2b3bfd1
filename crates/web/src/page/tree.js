
// The picture of a child's processes: the programs that use it, nostray's own processes, the child and its descendants.

const NODE_HEIGHT = 28, NODE_STEP = 34, DEPTH_STEP = 22, MAX_HOLDERS = 6;

// The nodes from top to bottom, each with its depth.
function treeNodes(row) {
  const nodes = row.used_by.slice(0, MAX_HOLDERS).map((user) => ({
    depth: 0, kind: "host", title: `${user.program} ${user.pid}`, what: user.session ? `session ${user.session}` : "host",
  }));
  const more = row.sessions - nodes.length;
  if (nodes.length && more > 0) nodes.push({ depth: 0, kind: "host", title: `… ${more} more`, what: "sessions" });
  const keepers = [[row.is_shared ? "steward" : "front", row.front], ["spare", row.spare], ["guard", row.guard]];
  let depth = 1;
  for (const [role, pid] of keepers) if (pid) nodes.push({ depth: depth++, kind: "keeper", title: `${role} ${pid}`, what: "nostray" });
  return nodes.concat(descendants(row, depth));
}

function descendants(row, depth) {
  const members = new Set(row.tree.map((one) => one.pid)), below = new Map();
  for (const one of row.tree) {
    const parent = members.has(one.parent) ? one.parent : 0;
    below.set(parent, [...(below.get(parent) ?? []), one]);
  }
  const found = [];
  const visit = (parent, level) => {
    for (const one of below.get(parent) ?? []) {
      found.push({ depth: level, kind: one.pid === row.child ? "child" : "member", title: String(one.pid), what: one.command });
      if (one.pid !== parent) visit(one.pid, level + 1);
    }
  };
  visit(0, depth);
  return found;
}

// The node above: the last one before it that is less deep. The holders are all above the first keeper.
function branches(nodes) {
  return nodes.flatMap((node, index) => {
    if (node.depth === 0) return [];
    const above = nodes.slice(0, index).map((other, at) => ({ ...other, at })).filter((other) => other.depth < node.depth);
    const last = above.at(-1);
    if (!last) return [];
    const parents = last.depth === 0 ? above.filter((other) => other.depth === 0) : [last];
    return parents.map((parent) => [parent.at, index]);
  });
}

function showTree(row) {
  const nodes = treeNodes(row);
  const key = JSON.stringify(nodes);
  if ($("tree").dataset.key === key) return;
  $("tree").dataset.key = key;
  const width = Math.max(240, $("tree").clientWidth || 600), height = nodes.length * NODE_STEP + 4;
  const names = nodes.map((node) => `${node.what} ${node.title}`).join(", then ");
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": shown(`Processes: ${names}`) });
  const x = (node) => 2 + Math.min(node.depth * DEPTH_STEP, width / 2), y = (index) => 2 + index * NODE_STEP;
  for (const [from, to] of branches(nodes)) {
    const start = x(nodes[from]) + 10;
    svg.append(makeSvg("path", { class: "branch", d: `M${start} ${y(from) + NODE_HEIGHT}V${y(to) + NODE_HEIGHT / 2}H${x(nodes[to])}` }));
  }
  nodes.forEach((node, index) => svg.append(treeNode(node, x(node), y(index), width)));
  $("tree").replaceChildren(svg);
}

function treeNode(node, x, y, width) {
  const group = makeSvg("g", { class: `node ${node.kind}` });
  // A character of the font is 6.7 wide.
  const room = Math.max(3, Math.floor((width - x - 20) / 6.7) - node.title.length - 2);
  const what = node.what.length > room ? `${node.what.slice(0, room - 1)}…` : node.what;
  group.append(makeSvg("title", {}, `${node.title} ${node.what}`));
  const length = Math.min(width - x - 2, (node.title.length + what.length + 2) * 6.7 + 18);
  group.append(makeSvg("rect", { x, y, width: length, height: NODE_HEIGHT, rx: 5 }));
  const text = makeSvg("text", { x: x + 8, y: y + 18 }, node.title);
  text.append(makeSvg("tspan", { class: "what", dx: 12 }, what));
  group.append(text);
  return group;
}
