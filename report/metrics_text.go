package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// String returns the metrics as lines for people: a table of the levels, and a line for each other
// subject that has anything to say. Programs read the fields, because the lines may change.
func (m *Metrics) String() string {
	var b strings.Builder
	m.writeLevels(&b)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	m.writeReads(line)
	m.writeWrites(line)
	m.writeMemory(line)
	m.writeLatency(line)
	m.writeFaults(line)
	return b.String()
}

// writeLevels writes the table of levels that have tables or were read.
func (m *Metrics) writeLevels(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "level\ttables\tsize\tconsulted\texcluded\tfalse positives\tblocks cached\tblocks from disk\t")
	row := func(name string, l *LevelMetrics) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t\n", name, l.Tables, sizeText(l.Bytes), l.Reads,
			l.FilterNegatives, l.FilterFalsePositives, l.BlocksFromCache, l.BlocksFromDisk)
	}
	for i := range m.Levels {
		if l := &m.Levels[i]; l.Tables > 0 || l.Reads > 0 {
			row(fmt.Sprint(i), l)
		}
	}
	total := m.Total()
	if m.Tables.ValueTables > 0 {
		row("values", &LevelMetrics{Tables: m.Tables.ValueTables, Bytes: m.Tables.ValueBytes})
	}
	total.Tables, total.Bytes = m.AllTables()
	row("all", &total)
	t.Flush() // to memory
}

func (m *Metrics) writeReads(line func(name, format string, args ...any)) {
	l, total := &m.Lookups, m.Total()
	line("lookups", "%d, found %d; memtables answered %d of %d searches", l.Count, l.Found, l.MemtableHits, l.MemtableSearches)
	line("filters", "%d checks, false-positive rate %s; %d of %d blocks from disk", total.FilterChecks,
		percentText(total.FilterFalsePositives, total.FilterNegatives+total.FilterFalsePositives),
		total.BlocksFromDisk, total.BlocksFromDisk+total.BlocksFromCache)
	if total.RangeChecks > 0 {
		line("ranges", "%d checks of range filters, %d tables skipped, false-positive rate %s", total.RangeChecks, total.RangeNegatives,
			percentText(total.RangeFalsePositives, total.RangeNegatives+total.RangeFalsePositives))
	}
}

func (m *Metrics) writeWrites(line func(name, format string, args ...any)) {
	w, c := &m.Writes, &m.Compactions
	line("writes", "%s (%s); log %s, %s", pluralText(w.Batches, "batch", "batches"), sizeText(w.Bytes), sizeText(w.LogBytes),
		counted(w.LogSyncs, "fsync"))
	if t := &m.Transactions; t.Commits+t.Conflicts > 0 {
		line("commits", "%s of transactions, %s, %s", counted(t.Commits, "commit"), counted(t.Conflicts, "conflict"), counted(t.Repeats, "repeat"))
	}
	line("flushes", "%d (%s)", m.Flushes.Count, sizeText(m.Flushes.Bytes))
	line("compactions", "%d in %s, and %s; read %s, written %s", c.Count, counted(c.Subcompactions, "piece"),
		counted(c.TrivialMoves, "move"), sizeText(c.BytesRead), sizeText(c.BytesWritten))
	for _, r := range c.Running {
		of := fmt.Sprintf("of levels %d and %d", r.InputLevel, r.OutputLevel)
		if r.InputLevel == NumLevels {
			of = "of values"
		}
		line("", "running for %s: %s %s, %s of %s read", r.Duration.Round(time.Millisecond),
			counted(uint64(r.InputTables), "table"), of, sizeText(r.BytesRead), sizeText(r.InputBytes))
	}
	if c.Pauses > 0 {
		line("", "%s in effect", counted(uint64(c.Pauses), "pause"))
	}
	if m.Ingests.Count > 0 {
		line("ingests", "%d; %s linked (%s), %d copied and %d rewritten (%s)", m.Ingests.Count, counted(m.Ingests.Linked, "table"),
			sizeText(m.Ingests.BytesLinked), m.Ingests.Copied, m.Ingests.Rewritten, sizeText(m.Ingests.BytesWritten))
	}
	if m.Loads.Count > 0 {
		line("loads", "%d with %s (%s)", m.Loads.Count, counted(m.Loads.Tables, "table"), sizeText(m.Loads.Bytes))
	}
	if e := &m.Expiry; e.Hidden+e.ValuesDropped+e.TablesDropped > 0 {
		line("expiry", "%d lookups found expired values; %s and %s dropped", e.Hidden, counted(e.ValuesDropped, "value"),
			counted(e.TablesDropped, "table"))
	}
	line("stalls", "%s, %s", counted(m.Stalls.Count, "wait"), m.Stalls.Duration.Round(time.Millisecond))
	for _, reason := range slices.Sorted(maps.Keys(m.Stalls.ByReason)) {
		s := m.Stalls.ByReason[reason]
		line("", "%s: %s, %s, longest %s", reason, counted(s.Count, "wait"), s.Duration.Round(time.Millisecond), s.Longest.Round(time.Microsecond))
	}
}

func (m *Metrics) writeMemory(line func(name, format string, args ...any)) {
	t, c := &m.Tables, &m.Cache
	line("memory", "memtables %s of %s, block cache %s of %s, filters %s, range filters %s, indexes %s", sizeText(m.Memtables.Bytes),
		sizeText(m.Memtables.Limit), sizeText(uint64(c.Bytes)), sizeText(uint64(c.Capacity)), sizeText(t.FilterBytes),
		sizeText(t.RangeFilterBytes), sizeText(t.IndexBytes))
	if t.ValueTables > 0 {
		line("values", "%s of %s, of which %s are garbage", counted(uint64(t.ValueTables), "value table"), sizeText(t.ValueBytes), sizeText(t.ValueGarbage))
	}
	line("open", "%s, %s, %s, %s; %s kept for readers", counted(uint64(t.Open), "table"), counted(uint64(m.OpenIterators), "iterator"),
		counted(uint64(m.OpenSnapshots), "snapshot"), counted(uint64(m.OpenTransactions), "transaction"), counted(uint64(t.Obsolete), "table"))
}

func (m *Metrics) writeLatency(line func(name, format string, args ...any)) {
	name := "latency"
	for _, h := range m.Latency.Named() {
		if h.Count > 0 {
			line(name, "%s: median %s, 99 %% %s, longest %s (%d measured)", h.Name, h.Quantile(0.5), h.Quantile(0.99), h.Quantile(1), h.Count)
			name = ""
		}
	}
}

// writeFaults writes what needs attention.
func (m *Metrics) writeFaults(line func(name, format string, args ...any)) {
	t := &m.Tables
	if n := t.WithoutFilter + t.WithUnknownFilter + t.WithDamagedFilter; n > 0 {
		line("attention", "%s without a usable filter: %d have none, %d an unknown one, %d a damaged one", counted(uint64(n), "open table"),
			t.WithoutFilter, t.WithUnknownFilter, t.WithDamagedFilter)
	}
	if t.ClosedForMemory > 0 && t.MemoryNeeded > t.MemoryLimit {
		line("attention", "%s closed for memory, which lookups open again: filters and indexes may use %s; to keep all open takes %s more at least",
			counted(t.ClosedForMemory, "table"), sizeText(uint64(t.MemoryLimit)), sizeText(uint64(t.MemoryNeeded-t.MemoryLimit)))
	}
	if t.WithFallbackFilter > 0 {
		line("attention", "%s with a damaged filter use another one", counted(uint64(t.WithFallbackFilter), "open table"))
	}
	if m.Compactions.TablesSetAside > 0 {
		line("attention", "%s set aside because of corruption", counted(uint64(m.Compactions.TablesSetAside), "table"))
	}
	if m.Compactions.TablesToMerge > 0 {
		line("small tables", "%s fewer when they are merged, while nothing else is due", counted(uint64(m.Compactions.TablesToMerge), "table"))
	}
	if m.Stalls.CurrentReason != "" {
		line("attention", "writers wait: %s", m.Stalls.CurrentReason)
	}
	if m.BackgroundError != nil {
		line("attention", "%v", m.BackgroundError)
	}
}

// sizeText is a number of bytes in the largest unit in which it is at least 1.
func sizeText(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), -1
	for size >= 1024 && unit < 4 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGTP"[unit])
}

// percentText is part of whole in percent, "unknown" if whole is 0.
func percentText(part, whole uint64) string {
	if whole == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(whole))
}

func entriesText(n uint64) string { return pluralText(n, "entry", "entries") }

func pluralText(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
