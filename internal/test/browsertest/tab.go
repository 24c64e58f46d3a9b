package browsertest

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

// RequireAll is the environment variable that makes tests fail, instead of being skipped, if a
// program that they need is missing. Continuous integration sets it.
const RequireAll = "SIEVEDB_REQUIRE_ALL"

// Find returns the browser that SIEVEDB_BROWSER names, or an installed Chromium or Chrome. Without one
// it skips the test, or fails it if SIEVEDB_REQUIRE_ALL is set.
func Find(t *testing.T) string {
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
	if os.Getenv(RequireAll) != "" {
		require.Fail(t, missing)
	}
	t.Skip(missing)
	return ""
}

// Tab is a page in a headless browser. It is used by one goroutine. It collects only requests and
// complaints of the page, not those of the browser itself.
type Tab struct {
	*debugger
	session string
	page    string // the URL that is open

	Console  []string // complaints of the page, or of the browser about it
	Requests []string // the URLs that the page requested, except its own
}

// Open starts a browser whose window has this size. It runs until the test ends.
func Open(t *testing.T, binary string, width, height int, dark bool) *Tab {
	t.Helper()
	p := &Tab{debugger: startBrowser(t, binary)}
	var target struct{ TargetID string }
	p.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Network", "Page", "Runtime", "Log"} {
		p.Call(domain+".enable", nil, nil)
	}
	p.SetDark(dark)
	p.Resize(width, height)
	p.onEvent = p.note
	return p
}

// Call calls a method of the debugging protocol for the page, and decodes the result.
func (p *Tab) Call(method string, params, into any) {
	p.t.Helper()
	p.call(p.session, method, params, into)
}

// SetDark makes the page dark or light, if it has both.
func (p *Tab) SetDark(dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Resize changes the size of the window.
func (p *Tab) Resize(width, height int) {
	p.t.Helper()
	p.Call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// note records requests of the page and complaints about it.
func (p *Tab) note(e *message) {
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
			p.Requests = append(p.Requests, params.Request.URL)
		}
	case "Log.entryAdded":
		p.Console = append(p.Console, params.Entry.Text+" "+params.Entry.URL)
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		p.Console = append(p.Console, string(e.Params))
	}
}

// VisitFile opens a file and returns when it is loaded.
func (p *Tab) VisitFile(file string) {
	p.t.Helper()
	p.Visit("file://" + filepath.ToSlash(file))
}

// Visit opens a page and returns when it is loaded.
func (p *Tab) Visit(url string) {
	p.t.Helper()
	p.page = url
	var went struct{ ErrorText string }
	p.Call("Page.navigate", map[string]any{"url": p.page}, &went)
	require.Empty(p.t, went.ErrorText)
	p.await(p.session, "Page.loadEventFired")
}

// Run runs a script in the page, waits for its value if that is a promise, and decodes it. The
// page's policy against scripts does not apply to it.
func (p *Tab) Run(script string, into any) {
	p.t.Helper()
	var ran struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.Call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &ran)
	require.Empty(p.t, string(ran.ExceptionDetails))
	require.NoError(p.t, json.Unmarshal(ran.Result.Value, into))
}

// Press presses and releases a key by its name, such as "Tab" or "ArrowRight", with its code.
func (p *Tab) Press(key string, code int) {
	p.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		p.Call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// Screenshot returns what the window shows.
func (p *Tab) Screenshot() image.Image {
	p.t.Helper()
	var shot struct{ Data string }
	p.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	m, err := png.Decode(bytes.NewReader(data))
	require.NoError(p.t, err)
	return m
}
