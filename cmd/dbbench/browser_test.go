package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser runs a Chromium without a window on one page.
type browser struct {
	binary        string
	width, height int
	dark          bool
}

// findBrowser returns the browser that setup.sh installs, or another of its family.
func findBrowser(t *testing.T) string {
	t.Helper()
	if name := os.Getenv("SIEVEDB_BROWSER"); name != "" {
		return name
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", `C:\Program Files\Google\Chrome\Application\chrome.exe`} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.Fail(t, "no browser", "run cmd/dbbench/setup.sh, or name a Chromium or Chrome in SIEVEDB_BROWSER")
	return ""
}

// seen is what came of a page: the document as it was in the end, what the browser said of
// it, and the URLs that it asked its network for.
type seen struct {
	dom, console string
	requests     []string
}

// visit opens a file.
func (b *browser) visit(t *testing.T, page string, args ...string) seen {
	t.Helper()
	// A limit for a browser that hangs, far above what one takes on a busy machine.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	netLog := filepath.Join(dir, "net.json")
	scheme := 1
	if b.dark {
		scheme = 0
	}
	all := append([]string{
		// The page is our own, and containers seldom have what the sandbox wants.
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--force-device-scale-factor=1", "--enable-logging=stderr", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--log-net-log=" + netLog, fmt.Sprintf("--window-size=%d,%d", b.width, b.height),
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme),
	}, args...)
	cmd := exec.CommandContext(ctx, b.binary, append(all, "file://"+filepath.ToSlash(page))...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	s := seen{dom: stdout.String(), requests: requestedURLs(t, netLog)}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			s.console += line
		}
	}
	return s
}

// requestedURLs reads the browser's record of its network.
func requestedURLs(t *testing.T, name string) (urls []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var record struct {
		Events []struct {
			Params struct {
				URL  string `json:"url"`
				Host any    `json:"host"`
			} `json:"params"`
		} `json:"events"`
	}
	require.NoError(t, json.Unmarshal(text, &record))
	for _, e := range record.Events {
		if e.Params.URL != "" {
			urls = append(urls, e.Params.URL)
		}
		if e.Params.Host != nil {
			urls = append(urls, fmt.Sprint(e.Params.Host))
		}
	}
	return urls
}

func (b *browser) screenshot(t *testing.T, page string) (image.Image, seen) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.png")
	s := b.visit(t, page, "--screenshot="+name)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	m, err := png.Decode(f)
	require.NoError(t, err)
	return m, s
}

// layout is where things are on a page, in pixels.
type layout struct {
	Width, Height, Inner float64 // of the document, and the width of the window
	Plots                []plotLayout
	Cut                  []string // texts that need more room than their box has
}

type plotLayout struct {
	ID                  string
	X, Y, Width, Height float64
	Marks, Texts        int
	Outside             []string // texts that stick out of the plot
	Overlapping         []string // pairs of texts that lie on each other
	Named               bool     // it has a title and a description, and both say something
}

// measuringScript finds out a layout. It is added to a copy of the page, which has no
// script of its own and forbids any.
const measuringScript = `<script>
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
const out = document.createElement("pre");
out.id = "layout";
out.textContent = JSON.stringify({Width: document.documentElement.scrollWidth, Height: document.documentElement.scrollHeight, Inner: innerWidth, Plots: plots, Cut: cut});
document.body.append(out);
</script>`

// measure returns the layout of a page.
func (b *browser) measure(t *testing.T, page string) *layout {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	policy := `<meta http-equiv="Content-Security-Policy"`
	require.Contains(t, string(text), policy)
	copied := strings.Replace(string(text), policy, `<meta name="off"`, 1)
	copied = strings.Replace(copied, "</body>", measuringScript+"</body>", 1)
	name := filepath.Join(t.TempDir(), "measured.html")
	require.NoError(t, os.WriteFile(name, []byte(copied), 0o644))
	_, rest, ok := strings.Cut(b.visit(t, name, "--dump-dom").dom, `<pre id="layout">`)
	require.True(t, ok, "the script did not run")
	found, _, _ := strings.Cut(rest, "</pre>")
	l := &layout{}
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(found)), l))
	return l
}
