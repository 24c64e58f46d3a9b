package main

import (
	"fmt"
	"os"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/cmd/internal/chart"
)

// writeSVG draws the disk reads per lookup with and without filters.
func (r *report) writeSVG(name string) error {
	return os.WriteFile(name, r.bars().File(), 0o644)
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
	cache := "no block cache"
	if r.CacheBytes > 0 {
		cache = "a block cache of " + bench.SizeText(uint64(r.CacheBytes))
	}
	title := "Disk reads per lookup"
	if r.Absent.Factor != nil {
		title += ": " + factorText(r.Absent.Factor) + " fewer for absent keys"
	}
	return &chart.Bars{
		ID: "reads", Title: title,
		Rows: []string{"without filters", "with filters"}, Series: []chart.Series{0, 2}, Strong: 1,
		Columns: 2, Panels: []chart.Panel{panel("absent", &r.Absent), panel("stored", &r.Stored)},
		Remarks: []string{fmt.Sprintf("Counted at the file system, with %s. The data: %s. Filters use %s of memory.",
			cache, r.Shape, bench.SizeText(r.Absent.On.FilterBytes))},
	}
}
