package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireAll is the environment variable that makes tests fail, instead of being skipped, if a
// program that they need is missing. Continuous integration sets it.
const requireAll = "SIEVEDB_REQUIRE_ALL"

// findBrowser returns the browser that SIEVEDB_BROWSER names, or an installed Chromium or
// Chrome. Without one it skips the test, or fails it if SIEVEDB_REQUIRE_ALL is set.
func findBrowser(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("SIEVEDB_BROWSER"); name != "" {
		return name
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium or Chrome found: run `make setup`, or name one in SIEVEDB_BROWSER"
	if os.Getenv(requireAll) != "" {
		require.Fail(t, missing)
	}
	t.Skip(missing)
	return ""
}

// tab is a page in a headless browser, controlled over Chrome's debugging protocol. It collects
// only requests and complaints of the page, not those of the browser itself.
type tab struct {
	*debugger
	session string
	page    string // the URL that is open

	console  []string // complaints of the page, or of the browser about it
	requests []string // the URLs that the page requested, except its own
}

// openTab starts a browser whose window has this size.
func openTab(t *testing.T, binary string, width, height int, dark bool) *tab {
	t.Helper()
	p := &tab{debugger: startBrowser(t, binary)}
	var target struct{ TargetID string }
	p.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Network", "Page", "Runtime", "Log"} {
		p.call(p.session, domain+".enable", nil, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.call(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.resize(width, height)
	p.onEvent = p.note
	return p
}

func (p *tab) resize(width, height int) {
	p.call(p.session, "Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// note records requests of the page and complaints about it.
func (p *tab) note(e *message) {
	if e.SessionID != p.session {
		return
	}
	var params struct {
		Request struct{ URL string }
		Entry   struct{ Text, URL string }
	}
	require.NoError(p.t, json.Unmarshal(e.Params, &params))
	switch e.Method {
	case "Network.requestWillBeSent":
		if params.Request.URL != p.page {
			p.requests = append(p.requests, params.Request.URL)
		}
	case "Log.entryAdded":
		p.console = append(p.console, params.Entry.Text+" "+params.Entry.URL)
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		p.console = append(p.console, string(e.Params))
	}
}

// visit opens a file and returns when it is loaded.
func (p *tab) visit(file string) {
	p.t.Helper()
	p.page = "file://" + filepath.ToSlash(file)
	var went struct{ ErrorText string }
	p.call(p.session, "Page.navigate", map[string]any{"url": p.page}, &went)
	require.Empty(p.t, went.ErrorText)
	p.await(p.session, "Page.loadEventFired")
}

// run runs a script in the page and decodes its value. The page's policy against scripts does not
// apply to it.
func (p *tab) run(script string, into any) {
	p.t.Helper()
	var ran struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.call(p.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &ran)
	require.Empty(p.t, string(ran.ExceptionDetails))
	require.NoError(p.t, json.Unmarshal(ran.Result.Value, into))
}

func (p *tab) screenshot() image.Image {
	p.t.Helper()
	var shot struct{ Data string }
	p.call(p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	m, err := png.Decode(bytes.NewReader(data))
	require.NoError(p.t, err)
	return m
}

// layout has the positions of elements on a page, in pixels.
type layout struct {
	Width, Height, Inner float64 // of the document, and the width of the window
	Plots                []plotLayout
	Cut                  []string // texts that are larger than their box
}

type plotLayout struct {
	ID                  string
	X, Y, Width, Height float64
	Marks, Texts        int
	Outside             []string // texts that extend beyond the plot
	Overlapping         []string // pairs of texts that overlap
	Named               bool     // it has a title and a description, and neither is empty
}

// measuringScript returns a layout.
const measuringScript = `(() => {
const box = e => e.getBoundingClientRect();
const plots = [...document.querySelectorAll("svg.plot")].map(svg => {
  const r = box(svg), texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, box(t)]);
  const outside = texts.filter(([, b]) => b.left < r.left - 1 || b.right > r.right + 1 || b.top < r.top - 1 || b.bottom > r.bottom + 1);
  const overlapping = [];
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left), high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 1 && high > 0.45 * Math.min(p.height, q.height)) overlapping.push(a + " / " + b);
  }));
  const says = name => (svg.querySelector(name)?.textContent ?? "").trim() != "";
  return {ID: svg.id, X: r.left + scrollX, Y: r.top + scrollY, Width: r.width, Height: r.height,
    Marks: [...svg.querySelectorAll(".mark")].filter(m => box(m).width > 0).length, Texts: texts.length,
    Outside: outside.map(t => t[0]), Overlapping: overlapping, Named: says("title") && says("desc")};
});
const cut = [...document.querySelectorAll("h1,h2,h3,p,dt,dd,figcaption,strong,span,.card,figure")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display != "inline" || box(e).right > innerWidth + 1)
  .filter(e => !e.closest(".scroll")).map(e => e.tagName + " " + e.textContent.slice(0, 60));
return {Width: document.documentElement.scrollWidth, Height: document.documentElement.scrollHeight, Inner: innerWidth, Plots: plots, Cut: cut};
})()`
