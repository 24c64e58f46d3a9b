package db

import (
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/read/latency"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/report"
)

// dbCounters are the store's counters, except for those of lookups and of the write path.
type dbCounters struct {
	opened time.Time

	latency latency.Set
	ranges  *counters.Ranges // of iterators that use range filters; nil: none do

	loads, loadTables, loadBytes       atomic.Uint64
	ingests, linked, copied, rewritten atomic.Uint64 // calls, and tables that were given
	bytesLinked, bytesIngested         atomic.Uint64 // the latter were written
}

// Metrics returns the store's counts and its present state. It may be called at any time. On a
// closed DB it returns what is still known, on a nil or zero DB the zero Metrics.
func (d *DB) Metrics() *Metrics {
	if d == nil || d.state() == nil {
		return &Metrics{}
	}
	s := d.state()
	c, o, w := d.compactor.Counters(), d.inForce.full(), d.commit.Status() // w after s: its spare memtable may become part of s
	m := &Metrics{
		Writes: report.WriteMetrics{
			Batches:  w.Batches,
			Bytes:    w.Bytes,
			LogBytes: w.LogBytes,
			LogSyncs: w.LogSyncs,
		},
		Transactions: report.TransactionMetrics{
			Commits: d.txns.commits.Load(), Conflicts: d.txns.conflicts.Load(), Repeats: d.txns.repeats.Load(),
		},
		Compactions: report.CompactionMetrics{
			Count:          c.Compactions,
			TrivialMoves:   c.TrivialMoves,
			ValuesDropped:  c.ValuesDropped,
			Subcompactions: c.Subcompactions,
			BytesRead:      c.BytesRead,
			BytesWritten:   c.BytesWritten,
		},
		Loads: report.LoadMetrics{
			Count:  d.counters.loads.Load(),
			Tables: d.counters.loadTables.Load(),
			Bytes:  d.counters.loadBytes.Load(),
		},
		Ingests: report.IngestMetrics{
			Count:        d.counters.ingests.Load(),
			Linked:       d.counters.linked.Load(),
			Copied:       d.counters.copied.Load(),
			Rewritten:    d.counters.rewritten.Load(),
			BytesLinked:  d.counters.bytesLinked.Load(),
			BytesWritten: d.counters.bytesIngested.Load(),
		},
		Memtables:    report.MemtableMetrics{Limit: uint64(o.Memtables.Size) * uint64(o.Memtables.MaxWaiting+1)},
		Tables:       report.TableMetrics{Obsolete: d.flusher.Obsolete.Count()},
		Latency:      d.counters.latency.Report(),
		LastSequence: d.finder.VisibleSeq.Load(),
		Opened:       d.counters.opened,
	}
	m.Expiry = report.ExpiryMetrics{Hidden: d.scans.Expiry.Hidden(), ValuesDropped: c.ValuesExpired, TablesDropped: c.TablesExpired, Time: d.scans.Expiry.Time()}
	m.Flushes.Count, m.Flushes.Bytes = d.flusher.Totals()
	m.Stalls = stallMetrics(&w)
	m.Stalls.L0Slowdown, m.Stalls.L0Stop = o.Compaction.L0Slowdown, o.Compaction.L0Stop
	m.OpenIterators, m.OpenSnapshots, m.OpenTransactions = d.opened.Counts()
	d.lookupTotals().Fill(m)
	m.Memtables.Bytes = w.SpareMemory
	for _, mem := range s.Memtables() {
		m.Memtables.Bytes += mem.Memory()
		m.Memtables.Count++
	}
	counters.FillTables(m, s.Version, d.tables)
	if m.Cache.Memory = o.Cache.Memory; d.share != nil {
		m.Cache.Memory = o.Resources.limits().CacheBytes
	}
	status, running := d.compactor.Status(), d.compactor.Running()
	m.Compactions.TablesSetAside, m.Compactions.Pauses = status.ParkedTables, status.Pauses
	m.Compactions.TablesToMerge = status.TablesToMerge
	m.Compactions.Running = running
	for _, err := range []error{d.commit.Failure(), w.FlushErr, status.Err, status.ParkedErr, d.followFailure()} {
		if m.BackgroundError == nil {
			m.BackgroundError = err
		}
	}
	return m
}

// stallMetrics returns the stalls of the write path.
func stallMetrics(s *commit.Status) report.StallMetrics {
	m := report.StallMetrics{CurrentReason: s.Stall}
	for reason, total := range s.Waits {
		if m.ByReason == nil {
			m.ByReason = make(map[string]report.StallTotal)
		}
		m.ByReason[reason] = report.StallTotal(total)
		m.Count += total.Count
		m.Duration += total.Duration
	}
	return m
}

// lookupTotals returns the counts of lookups, and of iterators that use range filters.
func (d *DB) lookupTotals() *counters.Totals {
	t := d.finder.Totals()
	d.counters.ranges.AddTo(t)
	return t
}

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() report.OpenReport {
	if d == nil {
		return report.OpenReport{}
	}
	return d.report
}
