package main

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/browsertest"
)

func testRand(t *testing.T) *rand.Rand {
	const seed = 1
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestBitsAreNumbersAndRanges(t *testing.T) {
	for text, want := range map[string][]int{"10": {10}, "4..7": {4, 5, 6, 7}, "12, 8 ,9..10": {8, 9, 10, 12}, "4..6,5..7": {4, 5, 6, 7}} {
		got, err := parseBits(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestSweepFlagsSelectTheSweep(t *testing.T) {
	cfg, err := parseConfig([]string{"--filters=fuse,none", "--bits=8"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{sweepName}, cfg.Benchmarks)
	require.Equal(t, []string{"none", "fuse"}, cfg.Filters, "in one order, however they were given")
	require.Equal(t, []sweepPoint{{Kind: "none"}, {Kind: "fuse"}}, sweepPoints(cfg.Filters, cfg.Bits), "fuse has no choice of bits")

	cfg, err = parseConfig(nil, nil)
	require.NoError(t, err)
	require.Empty(t, cfg.Benchmarks, "without flags the report of disk reads runs")
}

func TestKeyShapesAreSortedAndDisjoint(t *testing.T) {
	const n = 3000
	for i := range keyShapes {
		shape := &keyShapes[i]
		t.Run(shape.name, func(t *testing.T) {
			stored, absent := shape.keys(n, testRand(t))
			require.Len(t, stored, n)
			require.Len(t, absent, n)
			have := make(map[string]bool)
			for i, key := range stored {
				have[string(key)] = true
				require.True(t, i == 0 || bytes.Compare(stored[i-1], key) < 0)
			}
			for i, key := range absent {
				require.False(t, have[string(key)])
				require.True(t, i == 0 || bytes.Compare(absent[i-1], key) < 0)
			}
		})
	}
}

func TestTablesShareOutAllKeys(t *testing.T) {
	stored, absent := keyShapes[0].keys(2*sweepTableKeys+7, testRand(t))
	tables := splitTables(stored, absent, sweepTableKeys)
	require.Len(t, tables, 3)
	var have, asked [][]byte
	for i, table := range tables {
		have, asked = append(have, table.stored...), append(asked, table.absent...)
		for _, key := range table.absent {
			require.True(t, i == 0 || bytes.Compare(key, table.stored[0]) > 0, "a key is queried in the table that would have it")
			require.True(t, i == 2 || bytes.Compare(key, tables[i+1].stored[0]) < 0)
		}
	}
	require.Equal(t, stored, have)
	require.Equal(t, absent, asked)
}

// smallSweep runs a sweep of few keys and returns its page and its results.
func smallSweep(t *testing.T, args ...string) (page string, out *sweep) {
	t.Helper()
	dir := t.TempDir()
	page = filepath.Join(dir, "page.html")
	text := runOK(t, append([]string{"--num=30000", "--bits=4,10,16", "--repeat=2", "--html=" + page, "--json=" + filepath.Join(dir, "out.json")}, args...)...)
	require.Contains(t, text, "The report with charts is in "+page)
	return page, readJSON(t, filepath.Join(dir, "out.json")).FilterSweep
}

func TestASweepMeasuresWhatTheoryPredicts(t *testing.T) {
	page, out := smallSweep(t)
	require.Len(t, out.Shapes, 1+len(keyShapes))
	// LevelDB's hash spreads these keys as if they were random, or not at all: with their share
	// of equal hashes, the prediction holds too.
	spread := []string{"words", "16 random bytes", "64 bits, little-endian", "path/%04d/file%05d.txt"}
	for _, s := range out.Shapes {
		for _, r := range append(s.Small.Rates, s.Large.Rates...) {
			if r.Kind == "bloom" && !slices.Contains(spread, s.Shape) {
				continue // its hash clusters or separates these keys
			}
			require.EqualValues(t, s.Absent, r.Asked, "%s, %s", s.Shape, r)
			// Of hundreds of intervals some miss, but none by its own width.
			width := r.High - r.Low
			require.Less(t, r.Low-width, r.Predicted, "%s, %s", s.Shape, r)
			require.Greater(t, r.High+width, r.Predicted, "%s, %s", s.Shape, r)
		}
	}
	require.Len(t, out.Stores, 8)
	none, fuse := out.Stores[0], out.Stores[7]
	require.Equal(t, "none", none.Kind)
	require.Equal(t, "fuse", fuse.Kind)
	require.Greater(t, none.Absent.readsPerGet(), 0.9, "without filters each run whose range covers a key is read")
	require.Less(t, fuse.Absent.readsPerGet(), none.Absent.readsPerGet()/50)
	require.Equal(t, none.Present.Found, fuse.Present.Found)
	for _, r := range out.Stores {
		require.Zero(t, r.Absent.Found)
		require.Equal(t, r.Present.Gets, r.Present.Found)
		var sum uint64
		for _, l := range r.Absent.Levels {
			sum += l.Reads
		}
		require.Equal(t, r.Absent.Reads, sum)
		require.InEpsilon(t, r.Present.Predicted, float64(r.Present.Reads), 0.2, "%s", r)
	}
	requirePeers(t, out)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "go run ./cmd/dbbench --num=30000 --bits=4,10,16 --repeat=2", "the command that repeats the run")
	require.Contains(t, string(text), `content="default-src 'none'; style-src 'unsafe-inline'"`, "the browser loads nothing")
	require.NotRegexp(t, regexp.MustCompile(`(?i)<script|@import|url\(|https?://|src=|NaN|Inf\b|ZgotmplZ`), string(text))
}

// requirePeers requires that filters make the difference that they are known for.
func requirePeers(t *testing.T, out *sweep) {
	t.Helper()
	require.Len(t, out.Peers, 4)
	last := out.Levels[len(out.Levels)-1].Level
	none, pebble, leveldb, own := out.Peers[0], out.Peers[1], out.Peers[2], out.Peers[3]
	// A store without filters reads some parts of a table once that the other opens it with.
	require.InDelta(t, none.Absent.readsOf(last), pebble.Absent.readsOf(last), 0.001, "the last level is not consulted")
	require.Less(t, pebble.Absent.readsOf(0), none.Absent.readsOf(0)/50)
	require.Less(t, leveldb.Absent.readsPerGet(), pebble.Absent.readsPerGet()/10)
	require.Less(t, own.Absent.readsPerGet(), leveldb.Absent.readsPerGet()/2, "more bits above the last level")
	require.Greater(t, leveldb.FilterBytes, own.FilterBytes)
	for _, r := range out.Peers {
		require.Zero(t, r.Absent.Found)
		require.Equal(t, r.Present.Gets, r.Present.Found)
		require.InEpsilon(t, r.Present.Predicted, float64(r.Present.Reads), 0.05, "%s", r)
		require.Positive(t, r.Absent.Micros)
	}
}

// The page has a table of contents that leads to each section, no bars on a logarithmic axis, and captions that say
// what is seen.
func TestThePageLeadsItsReaders(t *testing.T) {
	page, _ := smallSweep(t, "--num=1000")
	bytes, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(bytes)
	links := regexp.MustCompile(`<a href="#(\w+)">`).FindAllStringSubmatch(text, -1)
	sections := regexp.MustCompile(`<section id="(\w+)">\n<h2>`).FindAllStringSubmatch(text, -1)
	require.Len(t, links, 4)
	require.Len(t, sections, len(links))
	for i := range links {
		require.Equal(t, links[i][1], sections[i][1])
	}
	require.NotContains(t, text, `class="stem`)
	require.Regexp(t, `<figcaption>With SieveDB&#39;s default, a lookup reads [\d.]+ blocks; with .* times as many`, text)
	require.NotContains(t, text, "The axis is logarithmic.")
}

func TestASweepOfOneFilterHasAPage(t *testing.T) {
	for _, args := range [][]string{{"--filters=none"}, {"--filters=fuse"}, {"--filters=bloom", "--bits=12"}} {
		page, _ := smallSweep(t, append(args, "--num=500")...)
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.NotRegexp(t, regexp.MustCompile(`NaN|Inf\b|%!`), string(text), "%s", args)
	}
}

// This test once failed because a browser's own requests were mistaken for the page's, and on
// machines without a browser.
func TestThePageInABrowser(t *testing.T) {
	binary := browsertest.Find(t)
	page, _ := smallSweep(t, "--num=1000")
	for _, b := range []struct {
		width, height int
		dark          bool
	}{{1200, 900, false}, {390, 800, true}, {560, 800, false}} {
		t.Run(fmt.Sprintf("%d pixels wide", b.width), func(t *testing.T) {
			p := browsertest.Open(t, binary, b.width, b.height, b.dark)
			p.VisitFile(page)
			// With more keys the axes reach lower rates, whose texts are longer.
			var ticks int
			p.Run(`[...document.querySelectorAll(".plot .tick.end")].filter(t => t.textContent.endsWith("%")).map(t => t.textContent = "0.001 %").length`, &ticks)
			require.Greater(t, ticks, 6)
			var l layout
			p.Run(measuringScript, &l)
			require.Equal(t, l.Inner, l.Width, "the page is as wide as the window")
			require.Empty(t, l.Cut)
			require.Len(t, l.Plots, 4)
			requireReadable(t, p, b.width)
			p.Resize(b.width, int(l.Height)+1)
			picture := p.Screenshot()
			require.Empty(t, p.Console, "the browser has no complaints about the page")
			require.Empty(t, p.Requests, "the page makes no requests")
			for i := range l.Plots {
				l.Plots[i].require(t, picture)
			}
		})
	}
}

func (p *plotLayout) require(t *testing.T, picture image.Image) {
	t.Helper()
	require.Greater(t, p.Width, 180.0, p.ID)
	require.Greater(t, p.Height, 100.0, p.ID)
	require.Positive(t, p.Marks, p.ID)
	require.Positive(t, p.Texts, p.ID)
	require.Empty(t, p.Outside, p.ID)
	require.Empty(t, p.Overlapping, p.ID)
	require.True(t, p.Named, p.ID)
	colourful := countColourful(picture, image.Rect(int(p.X), int(p.Y), int(p.X+p.Width), int(p.Y+p.Height)))
	require.Greater(t, colourful, 100, "%s: marks and lines are drawn", p.ID)
}

// The requests and complaints that the test above excludes are noticed.
func TestRequestsAndComplaintsOfAPageAreRecorded(t *testing.T) {
	p := browsertest.Open(t, browsertest.Find(t), 800, 600, true)
	for _, c := range []struct{ claim, html, request, console string }{
		{"nothing", `<p>`, "", ""},
		{"a picture", `<img src="http://127.0.0.1:1/picture.png">`, "http://127.0.0.1:1/picture.png", "ERR_"},
		{"a file", `<link rel="stylesheet" href="no-such.css">`, "no-such.css", "ERR_FILE_NOT_FOUND"},
		{"what a policy forbids", `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><img src="http://127.0.0.1:1/picture.png">`, "", "Content Security Policy"},
		{"a complaint", `<script>console.warn("too dark: " + matchMedia("(prefers-color-scheme: dark)").matches)</script>`, "", "too dark: true"},
		{"an error", `<script>noSuchThing()</script>`, "", "noSuchThing is not defined"},
	} {
		p.Console, p.Requests = nil, nil
		page := filepath.Join(t.TempDir(), "page.html")
		require.NoError(t, os.WriteFile(page, []byte("<!DOCTYPE html><title>A page</title>"+c.html), 0o644))
		p.VisitFile(page)
		var title string
		p.Run("document.title", &title)
		require.Equal(t, "A page", title)
		requests, console := strings.Join(p.Requests, "\n"), strings.Join(p.Console, "\n")
		if c.request+c.console == "" {
			require.Empty(t, requests+console)
			continue
		}
		require.Contains(t, requests, c.request, c.claim)
		require.Contains(t, console, c.console, c.claim)
	}
}

// countColourful counts the pixels that are not nearly grey. Grids, texts and backgrounds are
// nearly grey; marks and lines of filters are not.
func countColourful(m image.Image, in image.Rectangle) (n int) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			r, g, b, _ := m.At(x, y).RGBA()
			if max(r, g, b)-min(r, g, b) > 0x4000 {
				n++
			}
		}
	}
	return n
}
