package console

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/browsertest"
	"github.com/sievedb/sievedb/vfs"
)

// usedUp is a script for a paused page: it fills the parts that time fills, with more than they usually have to hold.
// durations from 10 ns to 100 s, rates, alerts.
const usedUp = `document.querySelector("#pause").click();
const live = await import("./live.js"), latency = await import("./latency.js"), alerts = await import("./alerts.js"),
card = await import("./card.js"), draw = await import("./draw.js");
const s = await (await fetch("api/status")).json();
const bucket = (i, n) => ({From: 10 ** i, To: 10 ** i * 1.06, Count: n});
const latencies = n => ({Count: 11 * n, Buckets: Array.from({length: 11}, (_, i) => bucket(i + 1, n))});
const at = (seconds, n) => { const c = structuredClone(s); c.Seconds = seconds;
for (const name of Object.keys(c.Metrics.Latency)) c.Metrics.Latency[name] = latencies(n);
c.Metrics.Lookups.Count += 1000 * n; return c; };
let before = null;
for (let i = 0; i <= 120; i += 5) { const c = at(1e4 + i, i + 1); live.drawRates(before, c); latency.drawLatency(c);
before = c; }
const plan = await (await fetch("api/plan")).json();
plan.Curve.push({...plan.Curve[plan.Curve.length - 1], BitsPerKey: 200});
card.drawCurve(plan);
`

// The parts of the page that time fills stay legible with all that they may have to hold.
func TestAFullPageIsLegible(t *testing.T) {
	p, store, _ := openPage(t)
	var ok bool
	recordSlowLookups(t, store, p)
	var text string
	do(p, usedUp+`alerts.drawAlerts({...at(1e4, 1), Damage: "corruption in 000003.log",
Unopened: "corruption in 000005.ldb"});
return document.querySelector("#alerts .bad").textContent`, &text)
	require.Equal(t, "The database is damaged. The page shows what can be read. corruption in 000003.log", text)
	for _, v := range views {
		p.SetDark(v.dark)
		p.Resize(v.width, v.height)
		do(p, `await until(() => innerWidth === `+fmt.Sprint(v.width)+`);
document.querySelectorAll("#slowest details")[0].open = true; return true`, &ok)
		showView(t, p, v)
		requireLegible(t, p, v)

		// The dialog names the key and the effect, and is legible too.
		do(p, `const f = document.querySelector("#change-form");
f.token.value = "`+testToken+`"; f.action.value = "delete"; f.key.value = "key0150"; f.requestSubmit();
await until(() => document.querySelector("#ask").open);
return document.querySelector("#ask-title").textContent + " " + document.querySelector("#ask-effect").textContent`, &text)
		require.Equal(t, `Delete the key "key0150" (7 bytes)? Its value of 100 bytes is lost.`, text)
		requireAxe(t, p, v)
		do(p, `const d = document.querySelector("#ask"), b = d.getBoundingClientRect(); const inside = b.left >= 0 &&
b.right <= innerWidth; document.querySelector("#ask-no").click();
await until(() => document.querySelector("#changed").textContent); return inside && !d.open &&
document.querySelector("#changed").textContent == "Nothing was changed."`, &ok)
		require.True(t, ok, v.name)
	}
	found, err := store.Has([]byte("key0150"))
	require.NoError(t, err)
	require.True(t, found, "nothing is changed without the second step")
	require.Empty(t, p.Console)
}

// recordSlowLookups looks keys up until the page lists slow ones.
func recordSlowLookups(t *testing.T, store *db.DB, p *browsertest.Tab) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = store.Has(fmt.Appendf(nil, "key%04d%s", i%3000, []string{"", "x"}[i%2]))
			}
		}
	}()
	var text string
	do(p, `await until(() => document.querySelector("#slowest summary"));
document.querySelector("#slowest summary").click();
await until(() => document.querySelector("#slowest .step"));
return document.querySelector("#slowest summary").textContent + "|" + document.querySelector("#slowest .verdict").textContent`, &text)
	close(stop)
	<-ended
	require.Regexp(t, `^[\d.]+ .?s for key\d{4}x?: (found|absent), .* ago\|(Found|Not found) in [\d.]+ .?s: `, text)
}

// The last minute is apart from all durations, and its 99 % is drawn over time.
func TestLatenciesOfTheLastMinute(t *testing.T) {
	p, _, _ := openPage(t)
	var got struct {
		Legend, Hint, Course string
		Points, Minutes      int
	}
	do(p, usedUp+`const figure = document.querySelector("#histograms figure");
return {Legend: document.querySelector("#latency-legend").textContent,
Hint: figure.querySelector(".hint").textContent, Course: figure.querySelectorAll("svg")[1].getAttribute("aria-label"),
  Points: figure.querySelector(".curve-line").getAttribute("d").split("L").length}`, &got)
	require.Equal(t, "last minutesince the opening", got.Legend)
	require.Contains(t, got.Hint, "Last minute: median 1.06 ms, 99 % within 106 s, longest 106 s; 660 measured")
	require.Contains(t, got.Hint, "Since the opening: median 1.06 ms, 99 % within 106 s, longest 106 s; 1,331 measured")
	require.Contains(t, got.Course, "99 % of the calls of 5 seconds were within")
	require.Equal(t, 24, got.Points)
}

// The tiles keep their figures when an answer is the one before, and say what their drawings span.
func TestTilesKeepTheirLastValue(t *testing.T) {
	p, _, _ := openPage(t)
	var got struct {
		Before, Same, First, Scale string
		Drawn                      float64 // the width of a bar whose parts are too small or exceed the whole
	}
	do(p, usedUp+`const first = () => document.querySelector(".tile-value").textContent, Before = first();
live.drawRates(before, before);
const Same = first();
live.drawRates(null, at(1e4 + 121, 500));
const bar = draw.stacked([[999, "good"], [400, "bad"], [1, "warm"], [0, "idle"], [1, "accent"]], 1000, 14, "");
return {Before, Same, First: first(), Drawn: [...bar.querySelectorAll("rect")].slice(1).reduce((sum, r) => sum + Number(r.getAttribute("width")), 0),
Scale: [...document.querySelectorAll(".tile-scale")].map(e => [...e.children].map(c => c.textContent).join(", ")).join("; ")}`, &got)
	require.Equal(t, "1,000/s", got.Before)
	require.Equal(t, got.Before, got.Same, "the same answer again")
	require.Equal(t, got.Before, got.First, "the first answer after a pause")
	require.InDelta(t, 1000, got.Drawn, 1e-6, "the parts of a bar stay in it")
	require.Regexp(t, `^last 2 min, top 1,000/s; .*; last 2 min, top 0 B/s; .*; last 2 min, top 0 ms/s$`, got.Scale)
}

// Alerts say what happens, why, and what helps.
func TestAlertsInWords(t *testing.T) {
	p, _, _ := openPage(t)
	var got []string
	do(p, usedUp+`const then = at(0, 1), all = [];
const say = change => { const now = structuredClone(then); now.Seconds = 10; change(now, now.Metrics);
all.push(alerts.rateAlerts(then, now).map(a => a[1]).join("|")); };
say(() => {});
say((s, m) => { s.FiltersOff = true; m.Lookups.Count += 86710; m.Levels[6].Reads += 288100;
m.Levels[6].BlocksFromDisk += 100; m.Levels[6].BlocksFromCache += 288000; });
say((s, m) => { m.Lookups.Count += 1000; m.Levels[6].Reads += 900; m.Levels[6].BlocksFromCache += 1000; });
say((s, m) => { m.Levels[6].FilterFalsePositives += 1000; m.Levels[6].FilterNegatives += 9000; });
say((s, m) => { m.Levels[6].BlocksFromDisk += 9000; m.Levels[6].BlocksFromCache += 1000;
m.Cache.Bytes = m.Cache.Capacity = 2 ** 23; });
say((s, m) => { m.Stalls.Duration += 4e9; m.Stalls.ByReason = {"level 0 is full": {Duration: 4e9},
"other": {Duration: 1}}; });
say((s, m) => { m.Tables.Openings += 200; m.Tables.Open = 1; });
const closing = m => { m.Tables.Openings += 200; m.Tables.Open = 1; m.Tables.ClosedForMemory += 200; m.Tables.MemoryLimit = 2 ** 20; };
say((s, m) => { closing(m); m.Tables.MemoryNeeded = 2 ** 22; });
say((s, m) => { closing(m); m.Tables.MemoryNeeded = 2 ** 19; });
const held = structuredClone(then), m = held.Metrics; m.Levels[0].Tables = 25; m.Compactions.Pauses = 1;
m.Tables.WithoutFilter = 2;
all.push(alerts.stateAlerts(held).map(a => a[1]).join("|"));
return all`, &got)
	require.Equal(t, []string{
		"",
		"28,810 blocks read for 8,671 lookups per second: filters are off (Options.Filters.Policy). They would save 99.0 % of these reads.",
		"100 blocks read for 100 lookups per second: tables have no usable filter. Filters would save 89.1 % of these reads. Run sievedb upgrade-filters.",
		"100 reads per second are wasted by false positives, 10.0 % of the checks for absent keys. Measure the filters below.",
		"900 of 1,000 blocks per second are read from files: the block cache of 8.0 MiB is full (Options.Cache.Size).",
		"Writes waited 40.0 % of the last 10 seconds, most for this reason: level 0 is full.",
		"20 tables per second are opened, and others closed for them: Options.Cache.MaxOpenFiles is less than the 2 tables.",
		"20 tables per second are opened, and others closed, because filters and indexes need 4.0 MiB and may use 1.0 MiB. " +
			"With 3.0 MiB more (Options.Cache.Memory) all stay open.",
		"20 tables per second are opened, and others closed, because filters and indexes need 512 KiB and may use 1.0 MiB. " +
			"Iterators or other databases use the rest.",
		"Level 0 has 25 tables: writes are slowed from 20 on and stop at 30. Compactions do not keep up." +
			"|Compactions are paused (1 pause): level 0 grows until they continue." +
			"|2 open tables without a usable filter: every lookup in their range reads them. Run sievedb upgrade-filters.",
	}, got)
}

// A key is explained as it was when a snapshot of the program was opened.
func TestExplainingAtASnapshot(t *testing.T) {
	p, store, _ := openPage(t)
	snapshot := store.NewSnapshot()
	defer snapshot.Close()
	require.NoError(t, store.Delete([]byte("key0150"), nil))
	var text string
	do(p, `const select = document.querySelector("#explain-at");
await until(() => select.options.length == 2); select.selectedIndex = 1;
document.querySelector("#explain-form").requestSubmit();
await until(() => document.querySelector("#explanation .verdict").textContent.includes("as of"));
const then = document.querySelector("#explanation .verdict").textContent;
select.selectedIndex = 0; document.querySelector("#explain-form").requestSubmit();
await until(() => !document.querySelector("#explanation .verdict").textContent.includes("as of"));
return select.options[1].textContent + "|" + then + "|" + document.querySelector("#explanation .verdict").textContent + document.querySelector("#hold").hidden`, &text)
	require.Regexp(t, `^a snapshot, operation 3,100\|Found as of operation 3,100 in .*\|Deleted in .*true$`, text)
	require.Empty(t, p.Console)
}

// The page of a directory: its filters are there at once, its memory is called the console's, a moment can be held, and
// an idle directory is called idle until something changes.
func TestPageOfADirectory(t *testing.T) {
	binary := browser(t)
	if runtime.GOOS == "windows" {
		t.Skip("followers are not supported")
	}
	dir := t.TempDir()
	write := func(from int) {
		store, err := db.Open(dir, nil)
		require.NoError(t, err)
		for i := from; i < from+1000; i++ {
			require.NoError(t, store.Put(fmt.Appendf(nil, "key%05d", i), make([]byte, 100), db.NoSync))
		}
		require.NoError(t, store.Flush())
		require.NoError(t, store.Close())
	}
	write(0)
	url, _ := serveFor(t, dir, ServeOptions{Refresh: 20 * time.Millisecond})
	p := browsertest.Open(t, binary, 1280, 900, false)
	p.Visit(url)
	var text string
	do(p, `await until(() => document.querySelector(".boxes rect") && document.querySelector("#curve svg") &&
document.querySelector("#hold:not([hidden])"));
return ["#mode", "#legend", "#memory-hint", "#process-title",
"#alerts"].map(q => document.querySelector(q).textContent).join("|")`, &text)
	require.Equal(t, "no program has it open|good (1)|What this console uses to read the directory.|The console's process|", text)
	for _, v := range views {
		showView(t, p, v)
		requireLegible(t, p, v)
	}
	do(p, `const select = document.querySelector("#explain-at"); document.querySelector("#hold").click();
await until(() => select.options.length == 2 && select.value);
return select.options[1].textContent + "|" + document.querySelector("#hold").textContent + "|" + document.querySelector("#held").textContent`, &text)
	require.Equal(t, "the held moment, operation 1,000|Release the moment|The moment of operation 1,000 is held for ten minutes at most.", text)

	write(1000)
	do(p, `document.querySelector("#explain-key").value = "key01500";
document.querySelector("#explain-form").requestSubmit();
await until(() => document.querySelector("#mode").textContent.startsWith("following") &&
document.querySelectorAll(".boxes rect").length == 2 &&
!document.querySelector("#legend").textContent.includes("opened"));
await until(() => document.querySelector("#explanation .verdict"));
const then = document.querySelector("#explanation .verdict").textContent; document.querySelector("#hold").click();
await until(() => document.querySelector("#explain-at").options.length == 1);
return document.querySelector("#mode").textContent + "|" + document.querySelector("#legend").textContent + "|" + then`, &text)
	require.Regexp(t, `^following another program\|good \(2\)\|Not found as of operation 1,000 in `, text)
	require.Empty(t, p.Console)

	logs, err := filepath.Glob(filepath.Join(dir, "CURRENT"))
	require.NoError(t, err)
	require.NoError(t, os.Rename(logs[0], logs[0]+".away"))
	do(p, `await until(() => document.querySelector("#mode").textContent == "needs attention");
return document.querySelector("#alerts .bad").textContent`, &text)
	require.Contains(t, text, "CURRENT")
	require.NoError(t, os.Rename(logs[0]+".away", logs[0]))
}

// The memory of a store that a program uses is called the program's, and the page says what it keeps itself.
func TestMemoryOfThePageIsApart(t *testing.T) {
	binary := browser(t)
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	server := httptest.NewServer(Handler(store, nil))
	defer server.Close()
	p := browsertest.Open(t, binary, 390, 844, true)
	p.Visit(server.URL + "/")
	var text string
	do(p, `await until(() => document.querySelector("#process-figures dd"));
return ["#memory-hint", "#process-title",
"#process-figures"].map(q => document.querySelector(q).textContent).join("|")`, &text)
	require.Regexp(t, `^What the store uses of the program's memory.\|The whole program\|Memory that Go has from the system[\d.]+ MiBObjects in its heap[\d.]+ [KM]iBAnswers that this page keeps[\d.]+ (B|KiB)$`, text)
}
