package console

import (
	"context"
	"net/http"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync/atomic"
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
	// Damage says what is wrong with the logs of the directory, Unopened why tables could not be opened.
	Damage, Unopened string
	Lag              *report.Lag
	LagFail          string
	// Idle says that no program had the directory open when it was opened. Quiet is the time in seconds since a change
	// was last seen, -1 if none was.
	Idle  bool
	Quiet float64
	// L0Slowdown and L0Stop are the numbers of tables in level 0 that slow and stop writes, 0 if the
	// options do not set them.
	L0Slowdown, L0Stop int
	FiltersOff         bool // by Options.Filters.Policy
	// Sample is the number of lookups for each one that LatencyMetrics measured.
	Sample int
	// Snapshots are the sequence numbers of the moments that can be explained, Held that of the page's own snapshot.
	Snapshots       []uint64
	Held            uint64
	Process         process
	ShowKeys, Write bool
	Alone           bool // the store is open for the page only, which can hold a snapshot
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
		FiltersOff: o.Filters.Policy == filter.None, Idle: h.found.idle, Snapshots: h.store.OpenSnapshots(), Held: h.held.sequence(),
		ShowKeys: h.o.ShowKeys, Write: h.o.WriteToken != "", Alone: h.alone,
	}
	if s.Held > 0 {
		s.Snapshots = slices.Compact(slices.Sorted(slices.Values(append(s.Snapshots, s.Held))))
	}
	s.Quiet = h.seen.quiet(&s.Metrics, time.Now())
	s.Process = readProcess()
	for _, kept := range []*shared{&h.tables, &h.curve, &h.slow} {
		s.Process.Page += kept.size()
	}
	if err := s.Metrics.BackgroundError; err != nil {
		s.Error, s.Metrics.BackgroundError = err.Error(), nil
	}
	if h.found.damage != nil {
		s.Damage = h.found.damage.Error()
	}
	s.Unopened, _ = h.seen.unopened.Load().(string)
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

// activity notices changes of the store. Its methods are called under the locks of the shared answers.
type activity struct {
	began    bool
	changed  time.Time // zero: never
	sequence uint64
	tables   [report.NumLevels]int
	unopened atomic.Value // a string: why tables could not be opened
}

// quiet returns the seconds since a change was last seen, -1 if none was.
func (a *activity) quiet(m *report.Metrics, now time.Time) float64 {
	var tables [report.NumLevels]int
	for i := range m.Levels {
		tables[i] = m.Levels[i].Tables
	}
	if a.began && (m.LastSequence != a.sequence || tables != a.tables) {
		a.changed = now
	}
	a.began, a.sequence, a.tables = true, m.LastSequence, tables
	if a.changed.IsZero() {
		return -1
	}
	return now.Sub(a.changed).Seconds()
}

// process has figures of the whole program, in bytes. The store is a part of it, and the page a small one.
type process struct {
	Heap, Total uint64 // objects of Go; all memory that Go has from the system
	Page        int    // the answers that the page's handler keeps
}

func readProcess() process {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(samples)
	return process{Heap: samples[0].Value.Uint64(), Total: samples[1].Value.Uint64() - samples[2].Value.Uint64()}
}

// openTime bounds the opening of tables for one list. The next list continues.
const openTime = 2 * time.Second

// readTables describes all tables by what is known without opening one. If the store is open for the page, tables are
// opened before: nobody else looks anything up in them.
func (h *handler) readTables(ctx context.Context) (any, error) {
	if h.alone {
		some, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		info, err := h.store.OpenTables(some)
		if errors.Is(err, db.ErrClosed) {
			return nil, err
		}
		unopened := ""
		if info.Failed > 0 {
			unopened = info.Err.Error()
		}
		h.seen.unopened.Store(unopened)
	}
	return h.store.Filters(ctx, 0)
}

// recordSlow is how long slow lookups are recorded after a page has asked for them.
const recordSlow = 20 * time.Second

// slowLookup is one of the slowest lookups. Its key is nil without Options.ShowKeys.
type slowLookup struct {
	At          float64 // seconds since the handler was made, as status.Seconds
	Key         *shown
	KeyBytes    int
	Explanation explained
}

// readSlow returns the slowest lookups, and has them recorded while pages ask.
func (h *handler) readSlow(context.Context) (any, error) {
	all := []slowLookup{}
	for _, s := range h.store.SlowLookups(recordSlow) {
		slow := slowLookup{At: s.Time.Sub(h.opened).Seconds(), KeyBytes: s.KeyBytes, Explanation: explained{Explanation: *s.Explanation}}
		if h.o.ShowKeys {
			slow.Key = show(s.Key)
		}
		all = append(all, slow)
	}
	return all, nil
}

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
