// What changes from second to second: rates, background work, memory.

import {bytes, count, counted, duration, percent, rate} from "./format.js";
import {find, longest, make, spark, stacked, swatch} from "./draw.js";

const history = new Map(); // of the tiles, by their names

export const total = (m, field) => m.Levels.reduce((sum, l) => sum + l[field], 0);

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
  ["Operations", "violet", m => m.LastSequence, r => r.Operations ? "written by another program" : "nothing is being written"],
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

let latest = null; // the rates of the last two answers that differed

// drawRates draws the tiles. An answer that is the one before, or the first after a pause, has no rates; then the tiles
// keep what they show.
export function drawRates(then, now) {
  const tiles = tilesOf(now.Mode), list = find("tiles");
  const fresh = then && now.Seconds > then.Seconds;
  if (fresh) latest = rates(then, now, tiles);
  else if (list.children.length) return;
  const of = latest;
  list.replaceChildren(...tiles.map(([name, ink, , note, unit]) => {
    const values = history.get(name) ?? [], suffix = suffixes[unit] ?? "/s";
    history.set(name, values);
    if (fresh) values.push([now.Seconds, of[name]]);
    while (values.length && values[0][0] < now.Seconds - longest) values.shift();
    const number = n => unit?.startsWith("bytes") ? bytes(n) : unit === "now" ? count(n) : rate(n);
    return make("li", {}, make("p", {class: "tile-name"}, name),
      make("p", {class: "tile-value"}, of ? number(of[name]) : "–", make("small", {}, suffix)),
      make("p", {class: "tile-note"}, of ? note(of, now) : ""), ...spark(values, ink, n => number(n) + suffix));
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
    const values = r.InputLevel === m.Levels.length;
    const of = values ? "of values" : `of levels ${r.InputLevel} and ${r.OutputLevel}`;
    const text = `${counted(r.InputTables, "table")} ${of}, ${bytes(r.BytesRead)} of ${bytes(r.InputBytes)} read, ${duration(r.Duration)}`;
    return make("li", {class: "job"}, make("p", {}, make("strong", {}, values ? "Values" : `Level ${r.InputLevel} → ${r.OutputLevel}`)),
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

// drawMemory draws the memory of the store, and apart from it that of the program and of this page.
export function drawMemory(s) {
  const m = s.Metrics, other = s.Mode === "follower" && !s.Idle;
  const parts = [["Memtables", m.Memtables.Bytes, "violet", ` of ${bytes(m.Memtables.Limit)}`], ["Block cache", m.Cache.Bytes, "accent", ` of ${bytes(m.Cache.Capacity)}`],
    ["Filters", m.Tables.FilterBytes, "good", ""], ["Range filters", m.Tables.RangeFilterBytes, "teal", ""], ["Indexes", m.Tables.IndexBytes, "amber", ""]];
  const whole = parts.reduce((sum, p) => sum + p[1], 0), entry = (name, value, ink, note) =>
    make("div", {}, make("dt", {}, ink && swatch(ink), name), make("dd", {}, value, note && make("small", {}, note)));
  find("memory-hint").textContent = !s.Alone ? "What the store uses of the program's memory."
    : `What this console uses to read the directory.${other ? " The program that writes it has memory of its own, which cannot be seen from here." : ""}`;
  find("memory-bar").replaceChildren(stacked(parts.map(p => [p[1], p[2]]), Math.max(whole, 1), 22, `Memory: ${parts.map(p => `${p[0]} ${bytes(p[1])}`).join(", ")}`));
  find("memory-figures").replaceChildren(...parts.map(([name, n, ink, limit]) => entry(name, bytes(n), ink, limit)), entry("Together", bytes(whole)),
    entry("Open", `${counted(m.Tables.Open, "table")}, ${counted(m.OpenIterators, "iterator")}, ${counted(m.OpenSnapshots, "snapshot")}`));
  find("process-title").textContent = s.Alone ? "The console's process" : "The whole program";
  find("process-figures").replaceChildren(entry("Memory that Go has from the system", bytes(s.Process.Total)), entry("Objects in its heap", bytes(s.Process.Heap)),
    entry("Answers that this page keeps", bytes(s.Process.Page)));
}
