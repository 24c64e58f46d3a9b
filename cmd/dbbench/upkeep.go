package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/metrics"
	"strings"
	"text/tabwriter"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	reports "github.com/sievedb/sievedb/report"
)

func compact(ctx context.Context, s *session, name string) error {
	return s.once(ctx, name, func(ctx context.Context) error { return s.store.Compact(ctx, nil, nil) })
}

func settle(ctx context.Context, s *session, name string) error { return s.once(ctx, name, s.settle) }

// once measures a single call of do, regardless of --threads and --duration.
func (s *session) once(ctx context.Context, name string, do func(context.Context) error) error {
	r, err := s.measure(ctx, job{name: name, threads: 1, steps: 1, once: true,
		begin: func(*thread) (step, func() error, error) {
			return func(int) error { return do(ctx) }, nil, nil
		}})
	r.Note = levelsText(levelShapes(s.store.Metrics()))
	s.addResult(r)
	return err
}

// levelsText describes levels.
func levelsText(levels []levelShape) string {
	var parts []string
	for _, l := range levels {
		parts = append(parts, fmt.Sprintf("level %d: %s of %s", l.Level, bench.Counted(uint64(l.Tables), "table"), bench.SizeText(l.Bytes)))
	}
	return cmp.Or(strings.Join(parts, ", "), "no tables")
}

func printStats(_ context.Context, s *session, _ string) error {
	m := s.store.Metrics()
	s.stats = &stats{Metrics: m, Memory: readMemory()}
	s.stats.Memory.PeakBytes, s.stats.Memory.BoundBytes = bench.Resident().Peak, bound(m)
	if m.BackgroundError != nil {
		s.stats.BackgroundError = m.BackgroundError.Error()
	}
	return s.stats.write(s.stdout)
}

// stats is the result of the workload stats: the store's metrics, whose JSON names are those of
// package db, and the process's memory.
type stats struct {
	*db.Metrics
	BackgroundError string `json:",omitempty"` // hides the field of Metrics, since an error has no JSON form
	Memory          memory
}

// memory is the process's memory in bytes, as Go's runtime counts it.
type memory struct {
	HeapBytes  uint64 // objects, including those not yet collected
	TotalBytes uint64 // obtained from the system and not returned
	PeakBytes  uint64 // peak resident memory, as the system counts it; 0 if unknown
	BoundBytes uint64 // the sum of bound
}

// allowance is the memory that the process may use in addition to what options bound.
const allowance = 64 << 20

// bound returns the memory that options and metrics account for: block cache, write buffers,
// filters and indexes of open tables, and the allowance.
func bound(m *db.Metrics) uint64 {
	return uint64(max(m.Cache.Capacity, 0)) + m.Memtables.Limit + m.Tables.FilterBytes + m.Tables.IndexBytes + allowance
}

func readMemory() memory {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return memory{HeapBytes: samples[0].Value.Uint64(), TotalBytes: samples[1].Value.Uint64() - samples[2].Value.Uint64()}
}

// write prints one line per level, then the other figures.
func (s *stats) write(w io.Writer) error {
	m := s.Metrics
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "level\ttables\tsize\treads\tfilter checks\tnegatives\ttrue pos.\tfalse pos.\tindex reads\tblocks cached\tblocks read\tbytes read\t")
	total := m.Total()
	for i := range m.Levels {
		if l := &m.Levels[i]; *l != (reports.LevelMetrics{}) {
			writeLevel(t, fmt.Sprint(i), l)
		}
	}
	writeLevel(t, "all", &total)
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `gets %s, found %s, answered by memtables %s; writes %s (%s)
log %s in %s; flushes %s (%s); compactions %s (read %s, written %s), tables moved %s
memory: memtables %s, block cache %s of %s, filters %s, indexes %s; open tables %d
process: heap %s, total %s; peak resident %s; expected at most %s (cache, write buffers, filters, indexes, and %s)
write stalls %s, total %v
`,
		bench.Grouped(m.Lookups.Count), bench.Grouped(m.Lookups.Found), bench.Grouped(m.Lookups.MemtableHits), bench.Grouped(m.Writes.Batches), bench.SizeText(m.Writes.Bytes),
		bench.SizeText(m.Writes.LogBytes), bench.Counted(m.Writes.LogSyncs, "sync"), bench.Grouped(m.Flushes.Count), bench.SizeText(m.Flushes.Bytes),
		bench.Grouped(m.Compactions.Count), bench.SizeText(m.Compactions.BytesRead), bench.SizeText(m.Compactions.BytesWritten), bench.Grouped(m.Compactions.TrivialMoves),
		bench.SizeText(m.Memtables.Bytes), bench.SizeText(uint64(max(m.Cache.Bytes, 0))), bench.SizeText(uint64(max(m.Cache.Capacity, 0))),
		bench.SizeText(m.Tables.FilterBytes), bench.SizeText(m.Tables.IndexBytes), m.Tables.Open, bench.SizeText(s.Memory.HeapBytes), bench.SizeText(s.Memory.TotalBytes),
		bench.SizeText(s.Memory.PeakBytes), bench.SizeText(s.Memory.BoundBytes), bench.SizeText(allowance),
		bench.Grouped(m.Stalls.Count), m.Stalls.Duration)
	return err
}

func writeLevel(w io.Writer, name string, l *reports.LevelMetrics) {
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, l.Tables, bench.SizeText(l.Bytes), bench.Grouped(l.Reads),
		bench.Grouped(l.FilterChecks), bench.Grouped(l.FilterNegatives), bench.Grouped(l.FilterTruePositives), bench.Grouped(l.FilterFalsePositives),
		bench.Grouped(l.IndexReads), bench.Grouped(l.BlocksFromCache), bench.Grouped(l.BlocksFromDisk), bench.SizeText(l.BytesFromDisk))
}
