package main

import (
	"fmt"
	"math"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
	"github.com/sievedb/sievedb/vfs/outfile"
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

// digits3 formats v with three significant digits and without an exponent.
func digits3(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(decimals, 0), 6), v)
}
