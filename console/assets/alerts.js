// What needs attention, in words: what happens, why, and what helps.

import {bytes, count, counted, duration, percent, rate} from "./format.js";
import {find, make} from "./draw.js";
import {total} from "./live.js";

const span = 10; // seconds over which rates are averaged, and after which their alerts may change
const past = [];  // answers of the last span
let ofRates = [], at = -Infinity;

// Alerts are replaced only if they change, so that screen readers say each of them once.
let alerted = "";
export function showAlerts(list) {
  const text = JSON.stringify(list);
  if (text === alerted) return;
  alerted = text;
  find("alerts").replaceChildren(...list.map(([look, line]) => make("p", {class: `alert ${look}`}, line)));
}

// drawAlerts shows what is wrong in an answer, and in how it differs from those before.
export function drawAlerts(s) {
  if (past.length && (s.Seconds < past[past.length - 1].Seconds || s.Seconds - past[past.length - 1].Seconds > span)) past.length = 0;
  past.push(s);
  while (past.length > 1 && past[1].Seconds <= s.Seconds - span) past.shift();
  if (s.Seconds - past[0].Seconds >= Math.min(span, 3) && (s.Seconds - at >= span || s.Seconds < at)) {
    ofRates = rateAlerts(past[0], s);
    at = s.Seconds;
  }
  showAlerts([...stateAlerts(s), ...ofRates]);
}

// stateAlerts are those of one answer.
export function stateAlerts(s) {
  const list = [], m = s.Metrics, t = m.Tables, without = t.WithoutFilter + t.WithUnknownFilter + t.WithDamagedFilter;
  const bad = line => list.push(["bad", line]), warm = line => list.push(["warm", line]);
  if (s.Damage) bad(`The database is damaged. The page shows what can be read. ${s.Damage}`);
  if (s.Error) bad(s.Error);
  if (s.LagFail) bad(s.LagFail);
  if (s.Unopened) bad(`A table cannot be opened: ${s.Unopened}`);
  if (m.Compactions.TablesSetAside) bad(`${counted(m.Compactions.TablesSetAside, "table")} set aside because of corruption. Run sievedb check.`);
  if (m.Stalls.CurrentReason) warm(`Writes wait: ${m.Stalls.CurrentReason}.`);
  const l0 = m.Levels[0].Tables;
  if (s.Mode === "store" && s.L0Stop && l0 >= s.L0Slowdown) warm(`Level 0 has ${counted(l0, "table")}: writes are slowed from ${s.L0Slowdown} on and stop at ${s.L0Stop}. Compactions do not keep up.`);
  if (m.Compactions.Pauses) warm(`Compactions are paused (${counted(m.Compactions.Pauses, "pause")}): level 0 grows until they continue.`);
  if (without && !s.FiltersOff) warm(`${counted(without, "open table")} without a usable filter: every lookup in their range reads them. Run sievedb upgrade-filters.`);
  if (s.Lag?.Operations && s.Lag.Time > 10e9) warm(`What is shown is ${duration(s.Lag.Time)} old: ${counted(s.Lag.Operations, "operation")} of the other program cannot be shown yet.`);
  return list;
}

// rateAlerts are those of the difference of two answers.
export function rateAlerts(then, now) {
  const list = [], seconds = now.Seconds - then.Seconds, warm = line => list.push(["warm", line]);
  const per = get => Math.max(0, get(now.Metrics) - get(then.Metrics)) / seconds;
  const lookups = per(m => m.Lookups.Count), disk = per(m => total(m, "BlocksFromDisk")), blocks = disk + per(m => total(m, "BlocksFromCache"));
  const inTables = per(m => Math.max(0, m.Lookups.Found - m.Lookups.MemtableHits)), unfiltered = per(m => total(m, "Reads") - total(m, "FilterChecks"));
  const wasted = Math.min(blocks, Math.max(0, unfiltered - inTables));
  const read = `${rate(blocks)} blocks read for ${rate(lookups)} lookups per second`;
  if (now.FiltersOff && wasted >= 1 && wasted > lookups / 10) warm(`${read}: filters are off (Options.Filters.Policy). They would save ${percent(.99 * wasted / blocks)} of these reads.`);
  else if (wasted >= 1 && wasted > lookups / 10) warm(`${read}: tables have no usable filter. Filters would save ${percent(.99 * wasted / blocks)} of these reads. Run sievedb upgrade-filters.`);
  const positives = per(m => total(m, "FilterFalsePositives")), absent = positives + per(m => total(m, "FilterNegatives"));
  if (positives >= 10 && positives > absent / 20) warm(`${rate(positives)} reads per second are wasted by false positives, ${percent(positives / absent)} of the checks for absent keys. Measure the filters below.`);
  const cache = now.Metrics.Cache;
  if (disk >= 100 && disk > blocks / 2 && cache.Bytes > .9 * cache.Capacity) {
    warm(`${rate(disk)} of ${rate(blocks)} blocks per second are read from files: the block cache of ${bytes(cache.Capacity)} is full (Options.Cache.Size).`);
  }
  const openings = per(m => m.Tables.Openings), missing = total(now.Metrics, "Tables") - now.Metrics.Tables.Open;
  const tables = now.Metrics.Tables, lacking = tables.MemoryNeeded - tables.MemoryLimit;
  if (per(m => m.Tables.ClosedForMemory) >= 10) {
    const help = lacking > 0 ? `With ${bytes(lacking)} more (Options.Cache.Memory) all stay open.` : "Iterators or other databases use the rest.";
    warm(`${rate(openings)} tables per second are opened, and others closed, because filters and indexes need ${bytes(tables.MemoryNeeded)} and may use ${bytes(tables.MemoryLimit)}. ${help}`);
  } else if (openings >= 10 && missing > 0) warm(`${rate(openings)} tables per second are opened, and others closed for them: Options.Cache.MaxOpenFiles is less than the ${counted(total(now.Metrics, "Tables"), "table")}.`);
  const waited = per(m => m.Stalls.Duration) / 1e9;
  if (waited >= .1) {
    const before = then.Metrics.Stalls.ByReason ?? {}, reasons = Object.entries(now.Metrics.Stalls.ByReason ?? {}).map(([r, t]) => [t.Duration - (before[r]?.Duration ?? 0), r]);
    warm(`Writes waited ${percent(Math.min(1, waited))} of the last ${count(seconds)} seconds, most for this reason: ${reasons.sort((a, b) => b[0] - a[0])[0]?.[1] ?? "unknown"}.`);
  }
  return list;
}
