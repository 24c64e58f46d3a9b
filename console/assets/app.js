// Asks the store once a second while the page is visible, and answers the forms.

import {count, counted, duration} from "./format.js";
import {find, make} from "./draw.js";
import {drawAlerts, showAlerts} from "./alerts.js";
import {drawLatency} from "./latency.js";
import {drawMemory, drawRates, drawSieve, drawWork, noteChanges} from "./live.js";
import {drawSlow} from "./slow.js";
import {drawLevels} from "./levels.js";
import {drawExplanation} from "./explain.js";
import {drawCurve, drawReport, redrawReport} from "./card.js";

const every = 1000, tablesEvery = 2000, slowEvery = 3000, curveEvery = 10000, patience = 10000; // milliseconds
let last = null, paused = false, timer = 0, tables = null, levels = null, seen = "", tablesAt = 0, slowAt = 0, curveSeen = "", curveAt = 0;

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

const seconds = n => duration(n * 1e9);

// modeOf returns in a few words what the page shows, and their look.
function modeOf(s) {
  if (s.Damage || s.Error) return ["needs attention", "bad"];
  if (s.Mode === "store") return ["open for writing", "good"];
  if (s.Mode === "read-only") return ["read-only", ""];
  if (s.Quiet > 60) return [`following, no write for ${seconds(s.Quiet)}`, ""];
  return s.Idle && s.Quiet < 0 ? ["no program has it open", ""] : ["following another program", "good"];
}

function drawHead(s) {
  const following = s.Mode === "follower", idle = s.Idle && s.Quiet < 0;
  find("title").textContent = s.Title;
  document.title = `${s.Title} – SieveDB`;
  const [text, look] = modeOf(s);
  find("mode").textContent = text;
  find("mode").className = `chip ${look}`;
  const lag = s.Lag && !s.Damage && !s.Error ? s.Lag.Operations ? `, ${counted(s.Lag.Operations, "operation")} and ${duration(s.Lag.Time)} late` : idle ? "" : ", up to date" : "";
  find("sequence").textContent = `sequence number ${s.Metrics.LastSequence.toLocaleString("en")}${lag}`; // no count: loads skip numbers
  find("sequence").hidden = false;
  find("now-hint").textContent = !following ? "" : idle ? "What the files say. No program had the directory open when this page began, and nothing has changed since."
    : "What the files say. Lookups, writes and compactions are counted in the program that does them; it can mount this page itself.";
  for (const e of document.querySelectorAll("[data-own]")) e.hidden = following;
  for (const [id, on] of [["keys", s.ShowKeys], ["change", s.Write], ["filters", !following], ["latency", !following], ["slow", !following]]) {
    find(id).hidden = !on;
    document.querySelector(`nav a[href="#${id}"]`).hidden = !on;
  }
  drawMoments(s);
}

const nameOf = sequence => `operation ${sequence.toLocaleString("en")}`;

// drawMoments lists the moments as of which a key can be explained.
let moments = "";
function drawMoments(s) {
  const list = s.Snapshots ?? [], text = JSON.stringify([list, s.Held, s.Alone]);
  if (text === moments) return;
  moments = text;
  const select = find("explain-at"), chosen = select.value;
  select.replaceChildren(make("option", {value: ""}, "now"), ...list.map(n => make("option", {value: n}, `${s.Held === n ? "the held moment" : "a snapshot"}, ${nameOf(n)}`)));
  select.value = list.some(n => String(n) === chosen) ? chosen : "";
  find("hold").hidden = !s.Alone;
  find("hold").textContent = s.Held ? "Release the moment" : "Hold this moment";
  find("held").textContent = s.Held ? `The moment of ${nameOf(s.Held)} is held for ten minutes at most.` : "";
}

// fingerprint changes when tables do.
const fingerprint = m => JSON.stringify([m.Levels.map(l => [l.Tables, l.Bytes]), m.Flushes.Count, m.Compactions.Count, m.Compactions.TrivialMoves, m.Loads.Count, m.Tables.Open]);

async function tick() {
  try {
    const s = await ask("api/status");
    drawHead(s);
    drawAlerts(s);
    drawRates(last, s);
    noteChanges(last, s);
    drawSieve(s.Metrics);
    drawWork(s);
    drawMemory(s);
    drawLatency(s);
    last = s;
    await refreshTables(s);
    await refreshSlow(s);
  } catch (e) {
    find("mode").textContent = "not connected";
    find("mode").className = "chip bad";
    showAlerts([["bad", `The store does not answer: ${e.message}. The page tries again.`]]);
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

async function refreshSlow(s) {
  if (s.Mode === "follower" || Date.now() - slowAt < slowEvery) return;
  slowAt = Date.now();
  drawSlow(await ask("api/slow"), s.Seconds);
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

onSubmit("explain-form", "explanation", async form => {
  const at = form.get("at");
  drawExplanation(await ask("api/explain", {Key: key(form, "key"), At: at}), at && nameOf(Number(at)));
});

find("hold").addEventListener("click", () => attempt(find("hold"), "held", async () => {
  const {Held} = await ask("api/hold", {Hold: !last?.Held});
  if (!last) return; // the next second shows it
  [last.Held, last.Snapshots] = [Held, [...(last.Snapshots ?? []).filter(n => n !== last.Held), ...Held ? [Held] : []]];
  drawMoments(last);
  find("explain-at").value = Held || "";
}));

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

// A change is asked about first: the store says what is there now, and what the change does to it.
let asked = null; // the change that the dialog is about

onSubmit("change-form", "changed", async form => {
  const change = {Action: form.get("action"), Key: key(form, "key"), Value: key(form, "value")}, headers = {Authorization: `Bearer ${form.get("token")}`};
  const {Question: q} = await ask("api/write", {...change, Ask: true}, headers);
  asked = [change, headers];
  find("changed").textContent = "";
  find("ask-title").textContent = q.Title;
  find("ask-effect").textContent = q.Effect;
  find("ask-yes").textContent = q.Button;
  find("ask").showModal();
  find("ask-no").focus();
});

find("ask-no").addEventListener("click", () => find("ask").close());
find("ask").addEventListener("close", () => { if (asked) find("changed").textContent = "Nothing was changed."; asked = null; });
find("ask-yes").addEventListener("click", () => {
  const [change, headers] = asked;
  asked = null;
  find("ask").close();
  attempt(document.querySelector("#change-form button"), "changed", async () => { find("changed").textContent = (await ask("api/write", change, headers)).Done; });
});

tick();
