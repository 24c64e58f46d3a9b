// What changes from second to second: rates, background work, memory, latencies.

import {bytes, count, counted, duration, percent, rate} from "./format.js";
import {find, make, spark, stacked, swatch} from "./draw.js";

const slots = 120; // seconds that the small charts show
const history = new Map();

const total = (m, field) => m.Levels.reduce((sum, l) => sum + l[field], 0);

// The tiles: a name, a color, the count whose rate is shown, a second line, and the unit of the count.
// With the unit "now" or "bytes now" the number itself is shown.
const ofLookups = [
  ["Lookups", "accent", m => m.Lookups.Count, r => r.Lookups ? `${percent(r.found / r.Lookups)} found` : ""],
  ["Tables excluded by filters", "good", m => total(m, "FilterNegatives"), r => r.Lookups ? `${(r["Tables excluded by filters"] / r.Lookups).toFixed(2)} for each lookup` : ""],
  ["False positives", "bad", m => total(m, "FilterFalsePositives"), r => {
    const absent = r["Tables excluded by filters"] + r["False positives"];
    return absent ? `${percent(r["False positives"] / absent)} of checks for absent keys` : "";
  }],
  ["Blocks from disk", "warm", m => total(m, "BlocksFromDisk"), r => {
    const all = r["Blocks from disk"] + r.cached;
    return all ? `${percent(r.cached / all)} came from the cache` : "";
  }],
];
const ofWrites = [
  ["Batches written", "violet", m => m.Writes.Batches, r => r.syncs ? `${rate(r.syncs)} fsyncs/s` : "no fsync"],
  ["Log", "teal", m => m.Writes.LogBytes, () => "", "bytes"],
  ["Compactions wrote", "amber", m => m.Compactions.BytesWritten, () => "", "bytes"],
  ["Writes waited", "bad", m => m.Stalls.Duration / 1e6, () => "milliseconds in each second", "ms"],
];
const ofFollower = [
  ["Operations", "violet", m => m.LastSequence, () => "written by the other program"],
  ["Operations not shown yet", "warm", (m, s) => s.Lag?.Operations ?? 0, (r, s) => s.Lag?.Time ? `everything until ${duration(s.Lag.Time)} ago is shown` : "everything is shown", "now"],
  ["Tables in level 0", "amber", m => m.Levels[0].Tables, () => "rises if compactions are too slow", "now"],
  ["Data in tables", "teal", m => total(m, "Bytes"), (r, s) => counted(total(s.Metrics, "Tables"), "table"), "bytes now"],
];

const tilesOf = mode => mode === "follower" ? ofFollower : mode === "read-only" ? ofLookups : ofLookups.concat(ofWrites);

// rates returns the changes a second between two answers, by the names of the tiles.
function rates(then, now, tiles) {
  const seconds = now.Seconds - then.Seconds, of = {};
  const change = get => Math.max(0, (get(now.Metrics, now) - get(then.Metrics, then)) / seconds);
  for (const [name, , get, , unit] of tiles) of[name] = unit?.endsWith("now") ? get(now.Metrics, now) : change(get);
  of.found = change(m => m.Lookups.Found);
  of.cached = change(m => total(m, "BlocksFromCache"));
  of.syncs = change(m => m.Writes.LogSyncs);
  return of;
}

const suffixes = {ms: " ms/s", now: "", "bytes now": ""};

export function drawRates(then, now) {
  const tiles = tilesOf(now.Mode), list = find("tiles");
  const of = then && now.Seconds > then.Seconds ? rates(then, now, tiles) : null;
  list.replaceChildren(...tiles.map(([name, ink, , note, unit]) => {
    const values = history.get(name) ?? [];
    history.set(name, values);
    if (of) values.push(of[name]);
    if (values.length > slots) values.shift();
    const value = !of ? "–" : unit?.startsWith("bytes") ? bytes(of[name]) : unit === "now" ? count(of[name]) : rate(of[name]);
    return make("li", {}, make("p", {class: "tile-name"}, name),
      make("p", {class: "tile-value"}, value, make("small", {}, suffixes[unit] ?? "/s")),
      make("p", {class: "tile-note"}, of ? note(of, now) : ""), spark(values, ink, Math.max(30, values.length)));
  }));
}

// The last changes of the levels, the newest first. Those of another program are visible in no other way.
const changes = [];

export function noteChanges(then, now) {
  if (!then) return;
  const moved = now.Metrics.Levels.map((l, i) => [i, then.Metrics.Levels[i].Tables, l.Tables]).filter(([, a, b]) => a !== b);
  if (!moved.length) return;
  changes.unshift([new Date().toLocaleTimeString(), moved.map(([i, a, b]) => `level ${i}: ${count(a)} → ${count(b)}`).join(", ")]);
  changes.length = Math.min(changes.length, 7);
}

function drawChanges() {
  find("changes").replaceChildren(...changes.length ? changes.map(([at, text]) => make("li", {}, make("span", {class: "soft"}, at), ` ${text}`))
    : [make("li", {class: "empty"}, "None since the page was opened.")]);
}

// The outcomes of filter checks, by level.
export function drawSieve(m) {
  const rows = [];
  m.Levels.forEach((l, level) => {
    if (!l.Reads) return;
    const absent = l.FilterNegatives + l.FilterFalsePositives, other = l.Reads - l.FilterChecks;
    const label = `Level ${level}: ${percent(l.FilterNegatives / l.Reads)} excluded, ${percent(l.FilterTruePositives / l.Reads)} found, ` +
      `${percent(l.FilterFalsePositives / l.Reads)} false positives, ${percent(other / l.Reads)} without a filter`;
    rows.push(make("span", {}, make("strong", {}, `Level ${level}`)),
      stacked([[l.FilterNegatives, "good"], [l.FilterTruePositives, "accent"], [l.FilterFalsePositives, "bad"], [other, "idle"]], l.Reads, 18, label),
      make("span", {class: "soft"}, absent ? `${count(l.Reads)} met, false-positive rate ${percent(l.FilterFalsePositives / absent)}` : `${count(l.Reads)} met`));
  });
  const legend = make("ul", {class: "legend"}, ...[["good", "excluded: no read"], ["accent", "found"], ["bad", "false positive: a wasted read"], ["idle", "no filter was used"]]
    .map(([ink, text]) => make("li", {}, swatch(ink), text)));
  find("sieve").replaceChildren(...rows.length ? [legend, make("div", {class: "bars"}, ...rows)] : [make("p", {class: "empty"}, "No lookup has met a table yet.")]);
}

const figures = (id, pairs) => find(id).replaceChildren(...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

export function drawWork(s) {
  const m = s.Metrics, c = m.Compactions;
  const jobs = (c.Running ?? []).map(r => {
    const part = r.InputBytes ? Math.min(1, r.BytesRead / r.InputBytes) : 0;
    const text = `${counted(r.InputTables, "table")} of levels ${r.InputLevel} and ${r.OutputLevel}, ${bytes(r.BytesRead)} of ${bytes(r.InputBytes)} read, ${duration(r.Duration)}`;
    return make("li", {class: "job"}, make("p", {}, make("strong", {}, `Level ${r.InputLevel} → ${r.OutputLevel}`)),
      make("svg", {viewBox: "0 0 100 8", preserveAspectRatio: "none", height: 8, role: "img", "aria-label": `${Math.round(part * 100)} % read`},
        make("rect", {class: "track", width: 100, height: 8}), make("rect", {class: "done", width: 100 * part, height: 8})),
      make("p", {class: "hint"}, `${text}: ${r.Reason}`));
  });
  if (c.Pauses) jobs.push(make("li", {}, `${counted(c.Pauses, "pause")} in effect.`));
  find("running").replaceChildren(...jobs.length ? jobs : [make("li", {class: "empty"}, "None at the moment.")]);
  drawChanges();
  figures("done", [["Flushes", `${count(m.Flushes.Count)} (${bytes(m.Flushes.Bytes)})`], ["Merges", `${count(c.Count)} in ${counted(c.Subcompactions, "piece")}`],
    ["Tables moved down", count(c.TrivialMoves)], ["Read by merges", bytes(c.BytesRead)], ["Written by merges", bytes(c.BytesWritten)],
    ["Write amplification", m.Writes.Bytes ? ((m.Writes.LogBytes + m.Flushes.Bytes + c.BytesWritten) / m.Writes.Bytes).toFixed(1) : "–"]]);
  const stalls = Object.entries(m.Stalls.ByReason ?? {});
  find("stalls").replaceChildren(stalls.length
    ? make("dl", {class: "figures"}, ...stalls.flatMap(([reason, t]) => [make("dt", {}, reason), make("dd", {}, `${count(t.Count)}×, ${duration(t.Duration)}`)]))
    : make("p", {class: "empty"}, "No write has waited for a flush or a compaction."),
  make("p", {class: "hint"}, s.L0Stop ? `Level 0 has ${counted(m.Levels[0].Tables, "table")}; writes are slowed from ${s.L0Slowdown} on and stop at ${s.L0Stop}.` : ""));
}

export function drawMemory(m) {
  const parts = [["Memtables", m.Memtables.Bytes, "violet", ` of ${bytes(m.Memtables.Limit)}`], ["Block cache", m.Cache.Bytes, "accent", ` of ${bytes(m.Cache.Capacity)}`],
    ["Filters", m.Tables.FilterBytes, "good", ""], ["Range filters", m.Tables.RangeFilterBytes, "teal", ""], ["Indexes", m.Tables.IndexBytes, "amber", ""]];
  const whole = parts.reduce((sum, p) => sum + p[1], 0);
  find("memory-bar").replaceChildren(stacked(parts.map(p => [p[1], p[2]]), Math.max(whole, 1), 22, `Memory: ${parts.map(p => `${p[0]} ${bytes(p[1])}`).join(", ")}`));
  find("memory-figures").replaceChildren(...parts.map(([name, n, ink, limit]) =>
    make("div", {}, make("dt", {}, swatch(ink), name), make("dd", {}, bytes(n), make("small", {}, limit)))),
  make("div", {}, make("dt", {}, "Together"), make("dd", {}, bytes(whole))),
  make("div", {}, make("dt", {}, "Open"), make("dd", {}, `${counted(m.Tables.Open, "table")}, ${counted(m.OpenIterators, "iterator")}, ${counted(m.OpenSnapshots, "snapshot")}`)));
}

// quantile is the end of the bucket in which a part q of the durations ends.
function quantile(h, q) {
  let rank = Math.max(1, Math.ceil(q * h.Count));
  for (const b of h.Buckets) {
    if (b.Count >= rank) return b.To;
    rank -= b.Count;
  }
  return 0;
}

// shortDuration is that of a power of ten.
const shortDuration = ns => duration(ns).replace(/\.0+ /, " ");

const names = [["Get", "Get"], ["Put", "Put without sync"], ["SyncedPut", "Put with sync"], ["Commit", "Commit of a group"], ["SyncedCommit", "Commit with sync"], ["Fsync", "Fsync of the log"]];

function histogram(h, title) {
  const width = 320, height = 120, base = 92, steps = 2; // bars for each doubling
  const low = Math.floor(Math.log2(Math.max(1, h.Buckets[0].From))), high = Math.ceil(Math.log2(h.Buckets[h.Buckets.length - 1].To));
  const bars = new Array(Math.max(1, high - low) * steps).fill(0);
  for (const b of h.Buckets) bars[Math.max(0, Math.min(bars.length - 1, Math.floor((Math.log2(Math.max(1, b.From)) - low) * steps)))] += b.Count;
  const x = ns => width * (Math.log2(ns) - low) / (bars.length / steps), top = Math.max(...bars), each = width / bars.length;
  const p50 = quantile(h, .5), p99 = quantile(h, .99), max = quantile(h, 1);
  const text = `median ${duration(p50)}, 99 % within ${duration(p99)}, longest ${duration(max)}`;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, class: "ink-accent", role: "img", "aria-label": `${title}: ${text}, of ${count(h.Count)} measured`});
  bars.forEach((n, i) => { if (n) svg.append(make("rect", {class: "bar", x: i * each + .5, width: each - 1, y: base - 74 * n / top - 1, height: 74 * n / top + 1, rx: 1})); });
  svg.append(make("line", {class: "axis", x1: 0, x2: width, y1: base, y2: base}));
  for (let ns = 10 ** Math.ceil(low * Math.LOG10E / Math.LOG2E - 1e-9); x(ns) <= width; ns *= 10) {
    svg.append(make("line", {class: "axis", x1: x(ns), x2: x(ns), y1: base, y2: base + 4}),
      make("text", {class: "soft", x: x(ns), y: base + 17, "text-anchor": x(ns) < 20 ? "start" : x(ns) > width - 24 ? "end" : "middle"}, shortDuration(ns)));
  }
  for (const [ns, name] of [[p50, "50 %"], [p99, "99 %"]]) {
    const right = x(ns) > width - 40;
    svg.append(make("line", {class: "mark", x1: x(ns), x2: x(ns), y1: name === "50 %" ? 14 : 2, y2: base}),
      make("text", {x: x(ns) + (right ? -4 : 4), y: name === "50 %" ? 24 : 11, "text-anchor": right ? "end" : "start"}, name));
  }
  return make("figure", {}, make("h3", {}, title), svg, make("p", {class: "hint"}, `${text}; ${count(h.Count)} measured`));
}

export function drawLatency(s) {
  const drawn = names.filter(([field]) => s.Metrics.Latency[field].Count).map(([field, title]) => histogram(s.Metrics.Latency[field], title));
  find("latency-hint").textContent = `Durations on a logarithmic scale. Of calls without a sync, one in ${s.Sample} is measured.`;
  find("histograms").replaceChildren(...drawn.length ? drawn : [make("p", {class: "empty"}, "Nothing has been measured yet.")]);
}
