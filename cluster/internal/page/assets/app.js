// The page asks for the cluster once a second while it is visible, and draws what comes. Texts are set as texts, never
// as HTML.

const find = id => document.getElementById(id);
const slotCount = 16384, colors = 7, remembered = 180; // seconds of writes that are shown
const count = n => n.toLocaleString("en");
const rate = n => n < 10 && n % 1 ? n.toFixed(1) : count(Math.round(n));

function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children.filter(c => c !== null));
  return e;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// update replaces the children only if they look different, so that the focus and selections stay.
function update(parent, ...children) {
  const fresh = parent.cloneNode(false);
  fresh.append(...children);
  if (fresh.innerHTML !== parent.innerHTML) {
    const focused = document.activeElement?.getAttribute?.("href");
    const had = focused && parent.contains(document.activeElement);
    parent.replaceChildren(...children);
    if (had) parent.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }
}

let before = null, paused = false;
const totals = [];

// rates returns the entries per second of each group between two answers.
function rates(then, now) {
  const seconds = then ? (Date.parse(now.At) - Date.parse(then.At)) / 1000 : 0;
  return now.Groups.map((g, i) => {
    const old = then?.Groups[i]?.Commit;
    return seconds > 0 && old && g.Commit >= old ? (g.Commit - old) / seconds : null;
  });
}

const since = ms => ms < 2000 ? "just now" : ms < 120000 ? `${Math.round(ms / 1000)} s ago` : `${Math.round(ms / 60000)} min ago`;
const chips = {up: "good", down: "bad", full: "warm", leaving: "warm"};

function drawNodes(now, color) {
  update(find("node-list"), ...now.Nodes.map(n => make("li", {},
    make("div", {class: "node-head"}, make("span", {class: `dot ${color(n.ID)}`, "aria-hidden": "true"}),
      make("h3", {}, `Node ${n.ID}`), make("span", {class: `chip ${chips[n.State] ?? ""}`}, n.State)),
    make("p", {class: "soft"}, n.Addr),
    make("p", {class: "soft"}, [n.Zone ? `zone ${n.Zone}` : "no zone", n.ID === now.Node ? "this node" : ""].filter(Boolean).join(" · ")),
    make("p", {class: "soft"}, `leads ${n.Leads} of ${now.Groups.length} groups` +
      (n.State === "down" ? `, last heard ${since(n.Silent)}` : n.Answered ? "" : ", does not answer")))));
}

function drawWrites(values) {
  const high = Math.max(...values, 1);
  const width = Math.max(30, values.length), x = i => 100 * (width - values.length + i) / (width - 1), y = v => 38 - 36 * v / high;
  const line = values.map((v, i) => `${x(i).toFixed(2)},${y(v).toFixed(2)}`);
  const last = values.at(-1);
  const text = values.length ? `Entries that all groups committed: ${rate(last)} per second now, at most ${rate(Math.max(...values))} in the last ${count(values.length)} seconds.`
    : "Entries that all groups committed: not known yet.";
  update(find("writes-text"), text);
  update(find("writes-chart"), draw("svg", {class: "chart", viewBox: "0 0 100 40", height: "72", preserveAspectRatio: "none", role: "img", "aria-label": text},
    draw("line", {class: "base", x1: 0, x2: 100, y1: 38, y2: 38}),
    line.length > 1 ? draw("polygon", {class: "area", points: `${x(0)},38 ${line.join(" ")} 100,38`}) : null,
    line.length > 1 ? draw("polyline", {class: "line", points: line.join(" ")}) : null));
}

function drawStrip(now, color) {
  const text = now.Groups.map(g => `slots ${g.First} to ${g.Last}: ${g.Leader ? `node ${g.Leader}` : "no leader"}`).join("; ");
  update(find("strip"), draw("svg", {class: "strip", viewBox: `0 0 ${slotCount} 14`, height: "14", preserveAspectRatio: "none", role: "img", "aria-label": `Leaders of the slots. ${text}`},
    ...now.Groups.map(g => draw("rect", {class: color(g.Leader), x: g.First + 24, width: Math.max(g.Last - g.First - 47, 60), y: 0, height: 14}))));
}

function replica(r, leader) {
  if (r.Failed) return make("span", {class: "broken"}, "failed");
  if (!r.Known) return make("span", {class: "soft"}, "not known");
  if (r.Node === leader) return make("span", {}, "leader");
  return make("span", {class: r.Lag > 100 ? "late" : ""}, r.Lag ? `${count(r.Lag)} behind` : "up to date");
}

function drawGroups(now, perSecond, color) {
  update(find("group-list"), ...now.Groups.map((g, i) => make("li", {class: color(g.Leader)},
    make("div", {class: "top"}, make("h3", {}, `Group ${g.Group}`),
      make("span", {class: "rate"}, perSecond[i] === null ? "– writes/s" : `${rate(perSecond[i])} writes/s`)),
    make("p", {class: "soft"}, `slots ${g.First}–${g.Last}`),
    g.Leader ? null : make("p", {class: "chip bad"}, "no leader"),
    make("div", {class: "replicas"}, ...g.Replicas.map(r => make("div", {},
      make("span", {class: `dot ${color(r.Node)}`, "aria-hidden": "true"}),
      make("span", {class: "grow"}, `Node ${r.Node}${r.Voter ? "" : " (no vote)"}`), replica(r, g.Leader)))),
    make("div", {class: "foot"}, make("span", {class: "soft"}, g.Term ? `term ${count(g.Term)}` : "term not known"),
      g.Local ? make("a", {href: `group/${g.Group}/`, "aria-label": `Database of group ${g.Group}`}, "database") : null))));
}

function show(now) {
  const ids = now.Nodes.map(n => n.ID);
  const color = id => ids.includes(id) ? `node-${ids.indexOf(id) % colors}` : "node-none";
  const perSecond = rates(before, now), up = now.Nodes.filter(n => n.State !== "down").length;
  if (before && before.At !== now.At && perSecond.some(r => r !== null)) {
    totals.push(perSecond.reduce((sum, r) => sum + (r ?? 0), 0));
    if (totals.length > remembered) totals.shift();
  }
  find("title").textContent = `${up} of ${ids.length} nodes, ${now.Groups.length} groups`;
  document.title = `sieved: ${find("title").textContent}`;
  update(find("alerts"), ...now.Problems.map(p => make("p", {class: "alert"}, p)));
  drawNodes(now, color);
  drawWrites(totals);
  drawStrip(now, color);
  drawGroups(now, perSecond, color);
  if (!before || before.At !== now.At) before = now;
}

function say(text, kind) {
  find("mode").textContent = text;
  find("mode").className = `chip ${kind}`;
}

async function look() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch("api/cluster");
    if (!answer.ok) throw new Error(await answer.text());
    const now = await answer.json();
    for (const list of ["Nodes", "Groups", "Problems"]) now[list] ??= [];
    for (const g of now.Groups) g.Replicas ??= [];
    show(now);
    say(now.Problems.length ? "has problems" : "live", now.Problems.length ? "warm" : "good");
  } catch (e) {
    say("no answer", "bad");
  }
}

find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", String(paused));
  find("pause").textContent = paused ? "Continue" : "Pause";
  say(paused ? "paused" : "live", "");
  if (!paused) look();
});
document.addEventListener("visibilitychange", look);
look();
setInterval(look, 1000);
