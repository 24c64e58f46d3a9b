package console

import (
	"context"
	"net/http"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/report"
)

// status is what the page asks for all the time. Metrics has the names of the Go fields.
type status struct {
	Title   string
	Mode    string  // "store", "read-only" or "follower"
	Seconds float64 // since the handler was made; rates are differences over it
	Metrics report.Metrics
	Error   string // Metrics.BackgroundError
	Lag     *report.Lag
	LagFail string
	// L0Slowdown and L0Stop are the numbers of tables in level 0 that slow and stop writes, 0 if the
	// options do not set them.
	L0Slowdown, L0Stop int
	// Sample is the number of lookups for each one that LatencyMetrics measured.
	Sample          int
	ShowKeys, Write bool
}

func (h *handler) readStatus(context.Context) (any, error) {
	lag, lagErr := h.store.Lag() // fails if the store is closed, or not a follower
	if errors.Is(lagErr, db.ErrClosed) {
		return nil, lagErr // the metrics of a closed store look like those of an open one
	}
	o := h.store.Options()
	s := status{
		Title: h.o.Title, Mode: "store", Seconds: time.Since(h.opened).Seconds(), Metrics: *h.store.Metrics(),
		L0Slowdown: o.Compaction.L0Slowdown, L0Stop: o.Compaction.L0Stop, Sample: report.LatencySample,
		ShowKeys: h.o.ShowKeys, Write: h.o.WriteToken != "",
	}
	if err := s.Metrics.BackgroundError; err != nil {
		s.Error, s.Metrics.BackgroundError = err.Error(), nil
	}
	switch {
	case h.store.IsFollower():
		s.Mode = "follower"
		if lagErr != nil {
			s.LagFail = lagErr.Error()
		} else {
			s.Lag = &lag
		}
	case o.ReadOnly:
		s.Mode = "read-only"
	}
	return s, nil
}

// readTables describes all tables by what is known without opening one.
func (h *handler) readTables(ctx context.Context) (any, error) { return h.store.Filters(ctx, 0) }

// mostProbes is a number of probes that measures one in a thousand.
const mostProbes = 20000

// probe measures the filters of all tables.
func (h *handler) probe(r *http.Request) (*report.FilterReport, error) {
	var in struct{ Probes int }
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if in.Probes < 1 || in.Probes > mostProbes {
		return nil, failure{http.StatusBadRequest, "want 1 to 20000 probes"}
	}
	if !h.probing.TryLock() {
		return nil, failure{http.StatusConflict, "the filters are being measured already; try again when that is done"}
	}
	defer h.probing.Unlock()
	defer h.curve.drop() // tables that were opened for this are known to it
	return h.store.Filters(r.Context(), in.Probes)
}

// planned is the curve of filter memory, with the point at which the store is.
type planned struct {
	*db.FilterPlan                // nil if there is none for the reason Missing
	Missing                       string
	Keys, EntryBytes, FilterBytes uint64
	// Known of Tables are open, so that their numbers of keys are known; the others are extrapolated.
	Known, Tables int
	// Miss is the number of blocks that a lookup of an absent key reads with the present filters, if all
	// levels have tables for it: predicted by the mathematics of each filter.
	Miss float64
	// MissKnown says that all of these rates are known.
	MissKnown bool
}

// plan calculates what other amounts of memory for filters would save.
func (h *handler) plan(ctx context.Context) (any, error) {
	f, err := h.store.Filters(ctx, 0)
	if err != nil {
		return nil, err
	}
	p := planned{Tables: len(f.Tables), MissKnown: true}
	var bytes, knownBytes uint64
	for i := range f.Tables {
		t := &f.Tables[i]
		bytes += t.Bytes
		if t.Keys > 0 {
			p.Known++
			knownBytes += t.Bytes
			p.Keys += t.Keys
			p.FilterBytes += t.FilterBytes
		}
	}
	o := h.store.Options()
	if p.Known == 0 && o.Filters.Policy == filter.None {
		p.Missing = "Filters are off, so there is no curve."
		return p, nil
	}
	if p.Known == 0 {
		p.Missing = "No open table has a filter with a known number of keys. Look keys up, or measure the filters."
		return p, nil
	}
	p.Keys = max(1, uint64(float64(p.Keys)*float64(bytes)/float64(knownBytes)))
	p.FilterBytes = uint64(float64(p.FilterBytes) * float64(bytes) / float64(knownBytes))
	p.EntryBytes = max(1, bytes/p.Keys)
	p.present(f)
	if p.FilterPlan, err = (&o).PlanFilters(p.Keys, p.EntryBytes, p.FilterBytes); err != nil {
		p.Missing = err.Error()
	}
	return p, nil
}

// present adds up the false-positive rates that an absent key meets: those of all tables of level 0, and
// the mean of each deeper level.
func (p *planned) present(f *report.FilterReport) {
	var sums, bytes [report.NumLevels]float64
	for i := range f.Tables {
		t := &f.Tables[i]
		if t.Keys == 0 || t.Predicted < 0 {
			p.MissKnown = p.MissKnown && t.Keys == 0
			continue
		}
		if t.Level == 0 {
			p.Miss += t.Predicted
			continue
		}
		sums[t.Level] += t.Predicted * float64(t.Bytes)
		bytes[t.Level] += float64(t.Bytes)
	}
	for level, n := range bytes {
		if n > 0 {
			p.Miss += sums[level] / n
		}
	}
}
