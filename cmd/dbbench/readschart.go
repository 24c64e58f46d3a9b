package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
	"github.com/sievedb/sievedb/internal/disk/outfile"
)

// readsWidth makes the chart legible on a phone, which shows README.md about 340 pixels wide.
const readsWidth = 480

// writeSVG draws the disk reads per lookup with and without filters.
func (r *report) writeSVG(name string) error {
	return outfile.Write(name, r.bars().File(), 0o644)
}

func cacheText(bytes int64) string {
	if bytes == 0 {
		return "no block cache"
	}
	return "a block cache of " + bench.SizeText(uint64(bytes))
}

func (r *report) bars() *chart.Bars {
	noun := "keys"
	if r.Words {
		noun = "words"
	}
	longest := 0.0
	for _, l := range []*lookups{&r.Stored.Off, &r.Stored.On, &r.Absent.Off, &r.Absent.On} {
		longest = max(longest, l.ReadsPerGet)
	}
	panel := func(kind string, c *comparison) chart.Panel {
		return chart.Panel{
			Title:  fmt.Sprintf("%s %s %s", bench.Grouped(c.On.Gets), kind, noun),
			Values: []float64{c.Off.ReadsPerGet, c.On.ReadsPerGet},
			Texts:  []string{digits3(c.Off.ReadsPerGet), digits3(c.On.ReadsPerGet)},
			Max:    longest,
		}
	}
	cache := cacheText(r.CacheBytes)
	if len(r.Peers) > 0 {
		return r.peerBars(cache)
	}
	title := "Disk reads per lookup"
	if r.Absent.Factor != nil {
		title += ": " + factorText(r.Absent.Factor) + " fewer for absent keys"
	}
	return &chart.Bars{
		ID: "reads", Title: title,
		Rows: []string{"without filters", "with filters"}, Series: []chart.Series{0, 2}, Strong: 1,
		Columns: 1, Width: readsWidth, Panels: []chart.Panel{panel("absent", &r.Absent), panel("stored", &r.Stored)},
		Remarks: []string{fmt.Sprintf("Counted at the file system, with %s. The data: %s. Filters use %s of memory.",
			cache, r.Shape, bench.SizeText(r.Absent.On.FilterBytes))},
	}
}

// peerSeries are the colours of no filter, the peers and the store's own filters.
var peerSeries = []chart.Series{0, 4, 1, 2}

// peerBars draws the lookups with the filters of other stores and with the store's own.
func (r *report) peerBars(cache string) *chart.Bars {
	noun := "keys"
	if r.Words {
		noun = "words"
	}
	absent := chart.Panel{Title: bench.Grouped(r.Absent.On.Gets) + " absent " + noun}
	stored := chart.Panel{Title: bench.Grouped(r.Stored.On.Gets) + " stored " + noun}
	memory := chart.Panel{Title: "filters in memory"}
	b := &chart.Bars{ID: "reads", Title: "Disk reads per lookup, with each store's filters", Strong: len(r.Peers) - 1, Columns: 1, Width: readsWidth}
	for i, p := range r.Peers {
		b.Rows, b.Series = append(b.Rows, p.Noun), append(b.Series, peerSeries[i])
		absent.Max = max(absent.Max, p.Absent.ReadsPerGet, p.Stored.ReadsPerGet)
		absent.Values = append(absent.Values, p.Absent.ReadsPerGet)
		absent.Texts = append(absent.Texts, digits3(p.Absent.ReadsPerGet))
		stored.Values = append(stored.Values, p.Stored.ReadsPerGet)
		stored.Texts = append(stored.Texts, digits3(p.Stored.ReadsPerGet))
		memory.Values = append(memory.Values, float64(p.Absent.FilterBytes))
		memory.Texts = append(memory.Texts, bench.SizeText(p.Absent.FilterBytes))
	}
	stored.Max = absent.Max
	b.Panels = []chart.Panel{absent, stored, memory}
	var what []string
	for _, p := range r.Peers[1:] {
		what = append(what, p.Noun+": "+p.What)
	}
	b.Remarks = []string{
		strings.Join(what, ". ") + ".",
		fmt.Sprintf("Shorter bars are better. All rows have the same data blocks and levels (%s), read by SieveDB with %s; "+
			"reads are counted at the file system.", r.Shape, cache),
	}
	return b
}

// digits3 formats v with three significant digits and without an exponent.
func digits3(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), v)
}
