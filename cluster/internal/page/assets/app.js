// The page asks for the cluster once a second while it is visible, and draws what comes. What is not known now is drawn
// as it was last known, with its age. Texts are set as texts, never as HTML.

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
  children = children.filter(c => c !== null);
  fresh.append(...children);
  if (fresh.innerHTML !== parent.innerHTML) {
    const focused = document.activeElement?.getAttribute?.("href");
    const had = focused && parent.contains(document.activeElement);
    parent.replaceChildren(...children);
    if (had) parent.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }
}

let before = null, paused = false, looking = false;
const totals = [], rates = new Map(); // of each group: entries per second, and when that was

// learnRates notes the entries per second of the groups between two answers. A group without a leader commits nothing,
// so its last rate stays. It returns the sum.
function learnRates(then, now) {
  const at = Date.parse(now.at), seconds = then ? (at - Date.parse(then.at)) / 1000 : 0;
  if (seconds <= 0) return null;
  let sum = 0;
  now.groups.forEach((g, i) => {
    const old = then.groups[i]?.commit;
    if (!g.leader || !old || g.commit < old) return;
    const value = (g.commit - old) / seconds;
    rates.set(g.group, {value, at});
    sum += value;
  });
  return sum;
}

function rateText(g, now) {
  const known = rates.get(g.group), age = known ? now - known.at : 0;
  if (!known) return g.leader ? "counting writes" : "no writes";
  return `${rate(known.value)} writes/s${age > 1500 ? ` ${ago(age)}` : ""}`;
}

const time = ms => ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : ms < 120000 ? `${Math.round(ms / 1000)} s`
  : ms < 7200000 ? `${Math.round(ms / 60000)} min` : ms < 172800000 ? `${Math.round(ms / 3600000)} h` : `${Math.round(ms / 86400000)} d`;
const ago = ms => `${time(ms)} ago`;
function bytes(n) {
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return `${n < 10 && unit ? n.toFixed(1) : Math.round(n)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

// chip is the color of a node's state: a silent one is red only if clients get errors.
const chip = (n, worst) => n.state === "up" ? "good" : n.state === "silent" && worst === "critical" ? "bad" : "warm";
const severe = {critical: "bad", warning: "warm"};
const worstOf = now => now.findings[0]?.severity ?? "";

function figures(n) {
  const f = n.figures;
  if (!f) return [make("p", {class: "soft"}, "no figures known")];
  const fsync = f.fsyncP99Us ? ` · fsync p99 ${time(f.fsyncP99Us / 1000)}` : "";
  return [
    make("p", {class: "soft"}, `${rate(f.commandsPerSecond)} commands/s${fsync}`),
    make("p", {class: "soft"}, `disk ${f.diskUsedBytes ? bytes(f.diskUsedBytes) : "-"}, ${bytes(f.diskFreeBytes)} free`),
    make("p", {class: "soft"}, `memory ${bytes(f.memoryBytes)} · up ${time(1000 * f.uptimeSeconds)}`),
    make("p", {class: "soft"}, `version ${f.version}`),
    n.figuresAgeMs > 2500 ? make("p", {class: "soft"}, `these figures are from ${ago(n.figuresAgeMs)}`) : null,
  ];
}

function drawNodes(now, color) {
  update(find("node-list"), ...now.nodes.map(n => make("li", {},
    make("div", {class: "node-head"}, make("span", {class: `dot ${color(n.id)}`, "aria-hidden": "true"}),
      make("h3", {}, `Node ${n.id}`), make("span", {class: `chip ${chip(n, worstOf(now))}`}, n.state)),
    n.answered ? null : make("p", {class: "quiet"}, `for ${time(n.silentMs)}${n.why ? `: ${n.why}` : ""}`),
    make("p", {class: "soft"}, n.addr),
    make("p", {class: "soft"}, [n.zone ? `zone ${n.zone}` : "no zone", n.id === now.node ? "this node" : ""].filter(Boolean).join(" · ")),
    make("p", {class: "soft"}, `leads ${n.leads} of ${now.groups.length} groups, ${count(n.replicas)} ${n.replicas === 1 ? "replica" : "replicas"}`),
    ...figures(n))));
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
  const text = now.groups.map(g => `slots ${g.first} to ${g.last}: ${g.leader ? `node ${g.leader}` : "no leader"}`).join("; ");
  update(find("strip"), draw("svg", {class: "strip", viewBox: `0 0 ${slotCount} 14`, height: "14", preserveAspectRatio: "none", role: "img", "aria-label": `Leaders of the slots. ${text}`},
    ...now.groups.map(g => draw("rect", {class: color(g.leader), x: g.first + 24, width: Math.max(g.last - g.first - 47, 60), y: 0, height: 14}))));
}

function replica(r, g) {
  const at = r.applied ? `at ${count(r.applied)}` : "";
  if (!r.known) return make("span", {class: "quiet"}, at ? `${at}, ${ago(r.ageMs)}` : "silent");
  if (r.failed) return make("span", {class: "broken"}, "failed");
  if (r.absent) return make("span", {class: "late"}, "to be made");
  if (r.node === g.leader) return make("span", {}, "leader");
  if (!g.leader) return make("span", {class: r.lag ? "late" : ""}, at); // what recover needs
  return make("span", {class: r.lag > 100 ? "late" : ""}, r.lag ? `${count(r.lag)} behind` : "up to date");
}

function drawGroups(now, color) {
  const at = Date.parse(now.at);
  update(find("group-list"), ...now.groups.map(g => make("li", {class: color(g.leader)},
    make("div", {class: "top"}, make("h3", {}, `Group ${g.group}`), make("span", {class: "rate"}, rateText(g, at))),
    make("p", {class: "soft"}, `slots ${g.first}–${g.last}`),
    g.leader ? null : make("p", {class: `chip ${severe[worstOf(now)] ?? ""}`}, "no leader"),
    make("div", {class: "replicas"}, ...g.replicas.map(r => make("div", {},
      make("span", {class: `dot ${color(r.node)}`, "aria-hidden": "true"}),
      make("span", {class: "grow"}, `Node ${r.node}${r.voter ? "" : " (no vote)"}`), replica(r, g)))),
    make("div", {class: "foot"}, make("span", {class: "soft"}, `${g.term ? `term ${count(g.term)}` : "no term"} · entry ${count(g.commit)}`),
      g.local ? make("a", {href: `group/${g.group}/`, "aria-label": `Database of group ${g.group}`}, "database") : null))));
}

// drawAlerts shows the findings, after a notice of the page itself if there is one.
function drawAlerts(findings, notice) {
  update(find("alerts"), notice ? make("p", {class: "alert critical"}, make("span", {class: "what"}, notice)) : null,
    ...findings.map(f => make("p", {class: `alert ${f.severity}`}, make("span", {class: "what"}, f.text), f.next ? ` ${f.next}` : "")));
}

function show(now) {
  const ids = now.nodes.map(n => n.id);
  const color = id => ids.includes(id) ? `node-${ids.indexOf(id) % colors}` : "node-none";
  const sum = learnRates(before, now), answering = now.nodes.filter(n => n.answered).length;
  if (sum !== null) {
    totals.push(sum);
    if (totals.length > remembered) totals.shift();
  }
  find("title").textContent = `${answering} of ${ids.length} nodes, ${now.groups.length} groups`;
  document.title = `sieved: ${find("title").textContent}`;
  drawAlerts(now.findings, "");
  drawNodes(now, color);
  drawWrites(totals);
  drawStrip(now, color);
  drawGroups(now, color);
  if (!before || before.at !== now.at) before = now;
}

function say(text, kind) {
  find("mode").textContent = text;
  find("mode").className = `chip ${kind}`;
}

const modes = {critical: ["clients get errors", "bad"], warning: ["has problems", "warm"]};

async function look() {
  if (paused || looking || document.hidden) return;
  looking = true;
  try {
    // A node that is paused accepts connections and does not answer.
    const answer = await fetch("api/cluster", {signal: AbortSignal.timeout(2500 + (before?.heartbeatMs ?? 1000))});
    if (!answer.ok) throw new Error(await answer.text());
    const now = await answer.json();
    for (const list of ["nodes", "groups", "findings"]) now[list] ??= [];
    for (const g of now.groups) g.replicas ??= [];
    now.heard = Date.now();
    show(now);
    say(...(modes[worstOf(now)] ?? ["live", "good"]));
  } catch (e) {
    say("no answer", "bad");
    drawAlerts(before?.findings ?? [], before ? `Node ${before.node}, which serves this page, does not answer. What follows is from ${ago(Date.now() - before.heard)}.`
      : "The node that serves this page does not answer.");
  } finally {
    looking = false;
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
