package console

import (
	_ "embed"
	"fmt"
	"image"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/browsertest"
	"github.com/sievedb/sievedb/vfs"
)

// look is what a look at the page finds.
type look struct {
	Width, Inner, Height float64
	Sections             []string
	Overlapping, Outside []string // elements that cover each other, or extend beyond the window
	Unnamed, Faint       []string // controls without a name, and texts with a low contrast
	Tiny                 []string // texts of drawings that are too small to read
	Headings             []int
	Boxes, Tiles, Charts int
}

// lookScript returns a look. Contrast is that of WCAG 2: 4.5 to 1, and 3 to 1 for large texts.
//
//go:embed testdata/look.js
var lookScript string

// until waits in the page until a condition holds.
const until = `const until = async f => { for (let i = 0; i < 1000 && !f(); i++) await new Promise(r => setTimeout(r,
20)); return Boolean(f()); };`

func do(p *browsertest.Tab, body string, into any) {
	p.Run("(async () => { "+until+body+" })()", into)
}

// browser returns the browser for a test, which runs beside others because it waits for the page's seconds.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a browser and seconds")
	}
	t.Parallel()
	return browsertest.Find(t)
}

// openPage shows the page of a used store in a browser, with all its parts filled.
func openPage(t *testing.T) (*browsertest.Tab, *db.DB, string) {
	binary := browser(t)
	store := openUsed(t)
	server := httptest.NewServer(Handler(store, &Options{ShowKeys: true, WriteToken: testToken}))
	t.Cleanup(server.Close)
	p := browsertest.Open(t, binary, 1280, 900, false)
	p.Visit(server.URL + "/")
	var filled bool
	do(p, `
const form = (id, field, value) => { if (field) document.querySelector(field).value = value;
document.querySelector(id).requestSubmit(); };
form("#explain-form", "#explain-key", "key0150"); form("#card-form"); form("#keys-form", "#keys-prefix", "key0");
return await until(() => document.querySelector(".step:nth-child(2)") && document.querySelector("#report table") &&
document.querySelector("#entries td") &&
  document.querySelector("#curve svg") && document.querySelectorAll(".tiles .line").length == 8)`, &filled)
	require.True(t, filled, "the page shows all its parts; complaints: %v", p.Console)
	return p, store, server.URL
}

// view is a size of the window and a scheme.
type view struct {
	name          string
	width, height int
	dark          bool
}

var views = []view{{"light screen", 1280, 900, false}, {"dark screen", 1280, 900, true}, {"dark phone", 390, 844, true}, {"light phone", 320, 600, false}}

// showView changes the window to a view, and waits until the page has adapted.
func showView(t *testing.T, p *browsertest.Tab, v view) {
	t.Helper()
	p.SetDark(v.dark)
	p.Resize(v.width, v.height)
	var drawn bool
	do(p, fmt.Sprintf("const width = %d;", v.width)+`return await until(() => { const s = document.querySelector(".boxes"), c = document.querySelector("#curve svg[role=img]");
return innerWidth === width && s && s.getBoundingClientRect().right <= innerWidth &&
(!c || c.viewBox.baseVal.width <= innerWidth); })`, &drawn) // the curve is requested again
	require.True(t, drawn, v.name)
}

// requireLegible requires that the page can be read and used as it is now, and returns what it has.
func requireLegible(t *testing.T, p *browsertest.Tab, v view) (l look) {
	t.Helper()
	p.Run(lookScript, &l)
	require.LessOrEqual(t, l.Width, l.Inner, "%s: the page scrolls sideways", v.name)
	require.Empty(t, l.Outside, "%s: outside of the window or of its drawing", v.name)
	require.Empty(t, l.Overlapping, v.name)
	require.Empty(t, l.Unnamed, "%s: without a name", v.name)
	require.Empty(t, l.Faint, "%s: low contrast", v.name)
	require.Empty(t, l.Tiny, "%s: too small", v.name)
	for i := 1; i < len(l.Headings); i++ {
		require.LessOrEqual(t, l.Headings[i], l.Headings[i-1]+1, "%s: heading %d skips a rank", v.name, i)
	}
	requireAxe(t, p, v)
	return l
}

// requireAxe requires that axe-core finds nothing, if SIEVEDB_AXE names its script, axe.min.js of the npm package
// axe-core.
func requireAxe(t *testing.T, p *browsertest.Tab, v view) {
	t.Helper()
	file := os.Getenv("SIEVEDB_AXE")
	if file == "" {
		return
	}
	script, err := os.ReadFile(file)
	require.NoError(t, err)
	var has bool
	p.Run(string(script)+"; true", &has)
	var found []string
	do(p, `const r = await axe.run();
return r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + " " + n.failureSummary))`, &found)
	require.Empty(t, found, v.name)
}

// The page is legible and complete in both schemes, on a screen and on a phone; controls have names, and
// it requests nothing from elsewhere.
func TestPageInABrowser(t *testing.T) {
	p, _, url := openPage(t)
	for _, v := range views {
		showView(t, p, v)
		l := requireLegible(t, p, v)
		require.Equal(t, []string{"now", "levels", "filters", "work", "memory", "latency", "slow", "explain", "card", "budget", "keys", "change"}, l.Sections, v.name)
		require.Equal(t, 2, l.Boxes, v.name)
		require.Equal(t, 8, l.Tiles, v.name)
		require.Positive(t, l.Charts, v.name)
		brightness := meanBrightness(p.Screenshot())
		require.Equal(t, v.dark, brightness < 0.35, "%s: mean brightness %.2f", v.name, brightness)
	}
	var space float64
	p.Run(`document.querySelector("#entries button").getBoundingClientRect().top - document.querySelector("#entries .scroll").getBoundingClientRect().bottom`, &space)
	require.GreaterOrEqual(t, space, 8.0, "the button for the next keys covers the list")
	require.Empty(t, p.Console, "the browser has no complaints about the page")
	for _, r := range p.Requests {
		require.True(t, strings.HasPrefix(r, url+"/"), "a request to %s", r)
		require.NotContains(t, r, "key0150", "keys are not in addresses, which are logged")
	}
}

func meanBrightness(m image.Image) float64 {
	var sum, n float64
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y += 4 {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x += 4 {
			r, g, b, _ := m.At(x, y).RGBA()
			sum += float64(r+g+b) / 3 / 0xffff
			n++
		}
	}
	return sum / n
}

// The page of an empty store says what is missing.
func TestPageOfAnEmptyStore(t *testing.T) {
	binary := browser(t)
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	server := httptest.NewServer(Handler(store, nil))
	defer server.Close()
	p := browsertest.Open(t, binary, 1280, 900, true)
	p.Visit(server.URL + "/")
	var text string
	do(p, `document.querySelector("#card-form").requestSubmit();
await until(() => document.querySelector("#report .empty")?.textContent.includes("no table") &&
document.querySelector("#curve .empty") && document.querySelector("#tables .empty"));
document.querySelector("#explain-form").requestSubmit();
await until(() => document.querySelector("#explanation .verdict"));
return ["#alerts", "#tables", "#sieve", "#running", "#histograms", "#explanation .verdict", "#report",
"#curve"].map(q => document.querySelector(q).textContent).join("|")`, &text)
	require.Regexp(t, `^\|There is no table yet.*\|No lookup has met.*\|None at the moment.\|Nothing has been measured yet.\|Not found in .*\|There is no table yet.*\|No open table`, text)
	require.Empty(t, p.Console)

	// A failed request for the tables is repeated although nothing has changed since. Time passes faster here.
	p.Run(`(() => { const began = Date.now(), now = Date.now.bind(Date), ask = window.fetch, wait = window.setTimeout;
let failed = 0;
window.setTimeout = (f, ms) => wait(f, ms < 1000 ? ms : ms / 20);
Date.now = () => began + 20 * (now() - began);
window.fetch = (path, request) => path == "api/tables" && !failed++ ? Promise.reject(new Error("once")) : ask(path,
request); return true })()`, new(bool))
	require.NoError(t, store.Put([]byte("key"), nil, db.NoSync))
	require.NoError(t, store.Flush())
	_, err = store.Has([]byte("key"))
	require.NoError(t, err)
	var drawn bool
	do(p, `return await until(() => document.querySelector(".boxes rect") &&
document.querySelector("#curve svg"))`, &drawn)
	require.True(t, drawn)

	// If the program hangs, old figures are not shown as if they were new.
	do(p, `const whole = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = ms => whole(ms / 100);
window.fetch = (path, request) => new Promise((_, fail) => request.signal.addEventListener("abort",
() => fail(request.signal.reason))); // no answer
await until(() => document.querySelector("#alerts .bad"));
return document.querySelector("#mode").textContent + ": " + document.querySelector("#alerts").textContent`, &text)
	require.Regexp(t, "^not connected: The store does not answer: .*timed out", text)
}

// Many tables share boxes, the worst verdict of which is shown; and numbers read well.
func TestDrawingManyTables(t *testing.T) {
	p, _, _ := openPage(t)
	var drawn struct {
		Boxes, Bad int
		Legend     string
		Detail     string
		Wide       bool
	}
	do(p, `document.querySelector("#pause").click();
const m = await import("./levels.js");
const tables = Array.from({length: 10000}, (_, i) => ({level: 6, fileNum: i, name: i + ".ldb", bytes: 2e6,
verdict: i == 5000 ? "damaged" : "good", lookups: {}}));
m.drawLevels({tables}, {Levels: [{}, {}, {}, {}, {}, {}, {Bytes: 2e10}]});
const boxes = [...document.querySelectorAll(".boxes rect")],
bad = boxes.findIndex(b => b.classList.contains("hatched"));
m.choose(bad);
return {Boxes: boxes.length, Bad: bad, Legend: document.querySelector("#legend").textContent,
Detail: document.querySelector("#table-detail").textContent,
  Wide: boxes.every(b => b.getBoundingClientRect().width >= 3)}`, &drawn)
	require.Equal(t, 3334, drawn.Boxes)
	require.Equal(t, 5000/3, drawn.Bad)
	require.Equal(t, "good (9,999)damaged (1)one box is 3 tables", drawn.Legend)
	require.Equal(t, "Level 6, tables 4998.ldb to 5000.ldb: 5.7 MiB. The worst verdict is: damaged.", drawn.Detail)
	require.True(t, drawn.Wide)

	var texts []string
	do(p, `const f = await import("./format.js");
return [f.bytes(0), f.bytes(1023), f.bytes(1536), f.bytes(5e9), f.count(999999), f.count(1234567), f.rate(0.5),
f.rate(12345), f.duration(999), f.duration(1500), f.duration(2.5e9),
  f.bytes(2 ** 20 - 1), f.duration(999.9), f.duration(999999), f.duration(119e9), f.duration(12e10), f.duration(7e12),
f.duration(5e14),
  f.percent(0), f.percent(.0000123), f.percent(.0123), f.percent(.5), f.percent(1), f.percent(NaN), f.counted(1,
"key"), f.counted(2, "key")]`, &texts)
	require.Equal(t, []string{"0 B", "1023 B", "1.5 KiB", "4.7 GiB", "999,999", "1.23 M", "0.5", "12,345", "999 ns", "1.50 µs", "2.50 s",
		"1.0 MiB", "1.00 µs", "1.00 ms", "119 s", "2.00 min", "117 min", "5.79 days",
		"0 %", "0.0012 %", "1.2 %", "50.0 %", "100 %", "unknown", "1 key", "2 keys"}, texts)
}

// The page can be used with the keyboard, shows what happens, pauses, and says when the store is gone.
func TestUsingThePage(t *testing.T) {
	p, store, _ := openPage(t)
	var text string
	p.Run(`document.querySelector("#sequence").textContent`, &text)
	require.Equal(t, "sequence number 3,100", text, "it is not the number of operations: a load into an empty store ends with 4,294,967,295")
	p.Run(`document.querySelector(".boxes").focus(), document.activeElement.getAttribute("aria-label")`, &text)
	require.Contains(t, text, "Level 0: 1 table")
	p.Run(`document.querySelector("#table-detail").textContent`, &text)
	require.Contains(t, text, "Verdict: good")
	for range 2 { // from level 0 to level 6, and to its only table
		p.Press("Tab", 9)
	}
	p.Run(`document.querySelectorAll(".boxes")[1].focus(),
document.querySelector("#table-detail").textContent`, &text)
	require.Contains(t, text, "Level 6")
	p.Press("ArrowLeft", 37)
	p.Press("End", 35)
	p.Run(`document.querySelector(".box.chosen").closest("svg").getAttribute("aria-label")`, &text)
	require.Contains(t, text, "Level 6", "arrow keys stay on the level")

	// A new table appears, and the chosen one stays chosen with its level in focus.
	for i := range 50 {
		require.NoError(t, store.Put(fmt.Appendf(nil, "new%d", i), nil, db.NoSync))
	}
	require.NoError(t, store.Flush())
	var ok bool
	do(p, `return await until(() => document.querySelectorAll(".boxes rect").length == 3)`, &ok)
	require.True(t, ok, "the new table is drawn")
	p.Run(`document.activeElement.getAttribute("aria-label") + document.querySelector("#table-detail").textContent`, &text)
	require.Regexp(t, `^Level 6.*Level 6, `, text)

	do(p, `document.querySelector("#pause").click();
let before = -1, asked = 0; // what it has asked for may still be under way
for (let i = 0; i < 10 && before != asked; i++) {
  before = asked;
  await new Promise(r => setTimeout(r, 1300));
  asked = performance.getEntriesByType("resource").length;
}
return before == asked`, &ok)
	require.True(t, ok, "a paused page asks nothing")
	p.Resize(390, 844)
	do(p, `return await until(() => [...document.querySelectorAll(".boxes")].every(b => b.viewBox.baseVal.width <= innerWidth))`, &ok)
	require.True(t, ok, "a paused page follows the size of the window")

	// A key that is HTML is shown as text, and a wrong token changes nothing.
	require.NoError(t, store.Put([]byte("<img src=x onerror=alert(1)>"), []byte("</td><b>"), db.NoSync))
	do(p, `document.querySelector("#keys-prefix").value = "<"; document.querySelector("#keys-form").requestSubmit();
return await until(() => document.querySelector("#entries td")?.textContent.startsWith("<img"))`, &ok)
	require.True(t, ok)
	p.Run(`document.querySelectorAll("#entries img, #entries b").length == 0`, &ok)
	require.True(t, ok)
	require.Empty(t, p.Console)
	do(p, `const f = document.querySelector("#change-form"); f.token.value = "wrong"; f.key.value = "k";
f.requestSubmit();
await until(() => document.querySelector("#changed").textContent);
return document.querySelector("#changed").textContent`, &text)
	require.Contains(t, text, "token is wrong")
	do(p, `const f = document.querySelector("#change-form"); f.token.value = "`+testToken+`"; f.requestSubmit();
await until(() => document.querySelector("#ask").open); document.querySelector("#ask-yes").click();
await until(() => document.querySelector("#changed").textContent.includes("synced"));
return document.querySelector("#changed").textContent`, &text)
	require.Equal(t, "written and synced", text)
	found, err := store.Has([]byte("k"))
	require.NoError(t, err)
	require.True(t, found)

	useKeys(t, p)
	require.NoError(t, store.Close())
	seeClosed(t, p)
}

// useKeys turns to the second page of keys.
func useKeys(t *testing.T, p *browsertest.Tab) {
	t.Helper()
	var text string
	do(p, `document.querySelector("#keys-prefix").value = "key"; document.querySelector("#keys-form").requestSubmit();
const next = () => document.querySelector("#entries button"),
first = () => document.querySelector("#entries td")?.textContent;
await until(() => first() == "key0000" && next());
next().click();
await until(() => first() == "key0050");
return first() + " " + document.activeElement.getAttribute("aria-label")`, &text)
	require.Equal(t, "key0050 List of keys", text)
}

// seeClosed looks at the page, which was paused and shows keys, after the store was closed.
func seeClosed(t *testing.T, p *browsertest.Tab) {
	t.Helper()
	var text string
	do(p, `document.querySelector("#entries button").click();
await until(() => document.querySelector("#entries .alert"));
return document.querySelector("#entries").textContent`, &text)
	require.Contains(t, text, "closed")
	do(p, `document.querySelector("#pause").click();
await until(() => document.querySelector("#alerts .bad"));
return document.querySelector("#mode").textContent + document.querySelector("#alerts").textContent`, &text)
	require.Regexp(t, "^not connected.*closed", text)
	do(p, `document.querySelector("#explain-form").requestSubmit();
await until(() => document.querySelector("#explanation .alert"));
return document.querySelector("#explanation").textContent`, &text)
	require.Contains(t, text, "closed")
}
