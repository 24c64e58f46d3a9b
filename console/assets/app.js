// Asks the store once a second while the page is visible, and answers the forms.

import {count, counted, duration} from "./format.js";
import {find, make} from "./draw.js";
import {drawLatency, drawMemory, drawRates, drawSieve, drawWork, noteChanges} from "./live.js";
import {drawLevels} from "./levels.js";
import {drawExplanation} from "./explain.js";
import {drawCurve, drawReport, redrawReport} from "./card.js";

const every = 1000, tablesEvery = 2000, curveEvery = 10000, patience = 10000; // milliseconds
let last = null, paused = false, timer = 0, tables = null, levels = null, seen = "", tablesAt = 0, curveSeen = "", curveAt = 0;

// ask returns the JSON of an answer, or throws the error in it.
async function ask(path, body, headers = {}) {
  const request = body === undefined ? {signal: AbortSignal.timeout(patience)} : {method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json", ...headers}};
  const answer = await fetch(path, request);
  const value = await answer.json().catch(() => ({Error: `${answer.status} ${answer.statusText}`}));
  if (!answer.ok) throw new Error(value.Error);
  return value;
}

// report is a report on filters, whose lists are missing if they are empty.
const report = async (path, body) => {
  const r = await ask(path, body);
  return {tables: r.tables ?? [], levels: r.levels ?? []};
};

const modes = {store: ["open for writing", "good"], "read-only": ["read-only", ""], follower: ["following another program", "good"]};

function drawHead(s) {
  find("title").textContent = s.Title;
  document.title = `${s.Title} – SieveDB`;
  const [text, look] = modes[s.Mode];
  find("mode").textContent = text;
  find("mode").className = `chip ${look}`;
  const lag = s.Lag ? s.Lag.Operations ? `, ${counted(s.Lag.Operations, "operation")} and ${duration(s.Lag.Time)} late` : ", up to date" : "";
  find("sequence").textContent = `sequence number ${s.Metrics.LastSequence.toLocaleString("en")}${lag}`; // no count: loads skip numbers
  find("sequence").hidden = false;
  const following = s.Mode === "follower";
  find("now-hint").textContent = following ? "What the files say. Lookups, writes and compactions are counted in the program that does them; it can mount this page itself." : "";
  for (const e of document.querySelectorAll("[data-own]")) e.hidden = following;
  for (const [id, on] of [["keys", s.ShowKeys], ["change", s.Write], ["filters", !following], ["latency", !following]]) {
    find(id).hidden = !on;
    document.querySelector(`nav a[href="#${id}"]`).hidden = !on;
  }
}

// Alerts are replaced only if they change, so that screen readers say each of them once.
let alerted = "";
function drawAlerts(list) {
  const text = JSON.stringify(list);
  if (text === alerted) return;
  alerted = text;
  find("alerts").replaceChildren(...list.map(([look, line]) => make("p", {class: `alert ${look}`}, line)));
}

function alertsOf(s) {
  const list = [], t = s.Metrics.Tables, without = t.WithoutFilter + t.WithUnknownFilter + t.WithDamagedFilter;
  if (s.Error) list.push(["bad", s.Error]);
  if (s.LagFail) list.push(["bad", s.LagFail]);
  if (s.Metrics.Stalls.CurrentReason) list.push(["warm", `Writes wait: ${s.Metrics.Stalls.CurrentReason}.`]);
  if (s.Metrics.Compactions.TablesSetAside) list.push(["bad", `${counted(s.Metrics.Compactions.TablesSetAside, "table")} set aside because of corruption. Run sievedb check.`]);
  if (without) list.push(["warm", `${counted(without, "open table")} without a usable filter: every lookup in their range reads them. Run sievedb upgrade-filters.`]);
  return list;
}

// fingerprint changes when tables do.
const fingerprint = m => JSON.stringify([m.Levels.map(l => [l.Tables, l.Bytes]), m.Flushes.Count, m.Compactions.Count, m.Compactions.TrivialMoves, m.Loads.Count, m.Tables.Open]);

async function tick() {
  try {
    const s = await ask("api/status");
    drawHead(s);
    drawAlerts(alertsOf(s));
    drawRates(last, s);
    noteChanges(last, s);
    drawSieve(s.Metrics);
    drawWork(s);
    drawMemory(s.Metrics);
    drawLatency(s);
    last = s;
    await refreshTables(s);
  } catch (e) {
    find("mode").textContent = "not connected";
    find("mode").className = "chip bad";
    drawAlerts([["bad", `The store does not answer: ${e.message}. The page tries again.`]]);
    last = null;
  }
  schedule();
}

// refreshTables draws tables and curve again if tables have changed. What fails is tried again.
async function refreshTables(s) {
  const now = Date.now(), print = fingerprint(s.Metrics);
  if (print !== seen && now - tablesAt >= tablesEvery) {
    tablesAt = now;
    [tables, levels] = [await report("api/tables"), s.Metrics];
    seen = print;
    drawLevels(tables, levels);
  }
  if (print !== curveSeen && now - curveAt >= curveEvery) {
    curveAt = now;
    await refreshCurve();
    curveSeen = print;
  }
}

async function refreshCurve() {
  const plan = await ask("api/plan");
  if (plan.Missing) find("curve").replaceChildren(make("p", {class: "empty"}, plan.Missing));
  else drawCurve(plan);
}

function schedule() {
  clearTimeout(timer);
  if (!paused && !document.hidden) timer = setTimeout(tick, every);
}

document.addEventListener("visibilitychange", () => { last = null; schedule(); });

find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", paused);
  find("pause").textContent = paused ? "Continue" : "Pause";
  last = null;
  schedule();
});

let width = innerWidth;
addEventListener("resize", async () => { // also while the page is paused
  if (innerWidth === width || !tables) return;
  width = innerWidth;
  drawLevels(tables, levels);
  redrawReport();
  await refreshCurve().catch(() => {}); // the next second shows what is wrong
});

// attempt runs an asynchronous function with its button disabled, and shows an error.
async function attempt(button, target, run) {
  button.disabled = true;
  try {
    await run();
  } catch (error) {
    find(target).replaceChildren(make("p", {class: "alert bad"}, error.message));
  }
  button.disabled = false;
}

function onSubmit(id, target, run) {
  const form = find(id);
  form.addEventListener("submit", e => {
    e.preventDefault();
    attempt(form.querySelector("button"), target, () => run(new FormData(form)));
  });
}

const key = (form, name) => ({Text: form.get(name), Hex: form.get("hex") === "on"});

onSubmit("explain-form", "explanation", async form => drawExplanation(await ask("api/explain", {Key: key(form, "key")})));

onSubmit("card-form", "report", async form => {
  find("report").replaceChildren(make("p", {class: "empty"}, "Measuring …"));
  drawReport(await report("api/filters", {Probes: Number(form.get("probes"))}));
  await refreshCurve();
});

onSubmit("keys-form", "entries", form => list(key(form, "prefix"), ""));

// list shows a page of keys, and a button for the next one.
async function list(prefix, after) {
  const page = await ask("api/keys", {Prefix: prefix, After: after});
  const cell = s => make("td", {class: "text wrap mono"}, s.Text || make("span", {class: "empty"}, "empty"));
  const rows = page.Entries.map(e => make("tr", {}, cell(e.Key), cell(e.Value), make("td", {}, count(e.Value.Bytes))));
  const head = make("tr", {}, ...[["Key", "text"], ["Value", "text"], ["Bytes"]].map(([t, c]) => make("th", {class: c, scope: "col"}, t)));
  const next = make("button", {type: "button"}, "Next keys");
  next.addEventListener("click", () => attempt(next, "entries", async () => {
    await list(prefix, page.Next);
    find("entries").querySelector(".scroll, button")?.focus(); // the button is gone
  }));
  find("entries").replaceChildren(rows.length ? make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "List of keys"}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)))
    : make("p", {class: "empty"}, page.Stopped ? "None so far: the search stopped after two seconds." : "There is no such key."), page.Next ? make("p", {class: "space"}, next) : "");
}

onSubmit("change-form", "changed", async form => {
  const done = await ask("api/write", {Action: form.get("action"), Key: key(form, "key"), Value: key(form, "value")}, {Authorization: `Bearer ${form.get("token")}`});
  find("changed").textContent = done.Done;
});

tick();
