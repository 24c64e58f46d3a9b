package metrics

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sievedb/sievedb/report"
)

// families is the list of all families.
var families = slices.Concat(levelFamilies, workFamilies, stallFamilies, memoryFamilies, diskFamilies, stateFamilies, followerFamilies)

func counter(name, help string, get func(m *report.Metrics) uint64) Family {
	return Family{Name: name, Help: help, Kind: Counter, read: func(s *Snapshot, e emitter) { e.add(float64(get(s.Metrics))) }}
}

func gauge[N int | int64 | uint64](name, help string, get func(m *report.Metrics) N) Family {
	return Family{Name: name, Help: help, Kind: Gauge, read: func(s *Snapshot, e emitter) { e.add(float64(get(s.Metrics))) }}
}

// byLevel is a family with a value for each level, and for each further label that results names.
func byLevel(kind Kind, name, help, label string, results []string, get func(l *report.LevelMetrics) []uint64) Family {
	f := Family{Name: name, Help: help, Kind: kind, Labels: []string{"level"}}
	if label != "" {
		f.Labels = append(f.Labels, label)
	}
	f.read = func(s *Snapshot, e emitter) {
		for i := range s.Metrics.Levels {
			for j, n := range get(&s.Metrics.Levels[i]) {
				labels := []string{strconv.Itoa(i)}
				if label != "" {
					labels = append(labels, results[j])
				}
				e.add(float64(n), labels...)
			}
		}
	}
	return f
}

var results = []string{"negative", "true_positive", "false_positive"}

var levelFamilies = []Family{
	byLevel(Gauge, "sievedb_level_tables", "Tables of the level.", "", nil,
		func(l *report.LevelMetrics) []uint64 { return []uint64{uint64(l.Tables)} }),
	byLevel(Gauge, "sievedb_level_bytes", "Size of the tables of the level.", "", nil,
		func(l *report.LevelMetrics) []uint64 { return []uint64{l.Bytes} }),
	byLevel(Counter, "sievedb_table_lookups_total", "Tables that lookups consulted, because the key was within their range.", "", nil,
		func(l *report.LevelMetrics) []uint64 { return []uint64{l.Reads} }),
	byLevel(Counter, "sievedb_filter_checks_total", "Checks of filters by lookups. A negative saved a read; a false positive wasted one.", "result", results,
		func(l *report.LevelMetrics) []uint64 {
			return []uint64{l.FilterNegatives, l.FilterTruePositives, l.FilterFalsePositives}
		}),
	byLevel(Counter, "sievedb_range_filter_checks_total", "Checks of range filters by iterators. A negative skipped a table.", "result", results,
		func(l *report.LevelMetrics) []uint64 {
			return []uint64{l.RangeNegatives, l.RangeTruePositives, l.RangeFalsePositives}
		}),
	byLevel(Counter, "sievedb_index_reads_total", "Index blocks that lookups read from disk separately.", "", nil,
		func(l *report.LevelMetrics) []uint64 { return []uint64{l.IndexReads} }),
	byLevel(Counter, "sievedb_block_reads_total", "Data blocks that lookups read.", "source", []string{"cache", "disk"},
		func(l *report.LevelMetrics) []uint64 { return []uint64{l.BlocksFromCache, l.BlocksFromDisk} }),
	byLevel(Counter, "sievedb_read_bytes_total", "Index and data bytes that lookups read from disk.", "", nil,
		func(l *report.LevelMetrics) []uint64 { return []uint64{l.BytesFromDisk} }),
}

var workFamilies = []Family{
	counter("sievedb_lookups_total", "Calls of Get, GetTo and Has, and keys of MultiGet.", func(m *report.Metrics) uint64 { return m.Lookups.Count }),
	counter("sievedb_lookups_found_total", "Lookups that returned a value.", func(m *report.Metrics) uint64 { return m.Lookups.Found }),
	counter("sievedb_memtable_hits_total", "Lookups that a memtable answered.", func(m *report.Metrics) uint64 { return m.Lookups.MemtableHits }),
	counter("sievedb_memtable_searches_total", "Searches of memtables by lookups.", func(m *report.Metrics) uint64 { return m.Lookups.MemtableSearches }),
	counter("sievedb_write_batches_total", "Batches written.", func(m *report.Metrics) uint64 { return m.Writes.Batches }),
	counter("sievedb_write_bytes_total", "Bytes of the batches written.", func(m *report.Metrics) uint64 { return m.Writes.Bytes }),
	counter("sievedb_log_bytes_total", "Bytes written to the log, with its framing.", func(m *report.Metrics) uint64 { return m.Writes.LogBytes }),
	counter("sievedb_log_syncs_total", "Fsyncs of the log.", func(m *report.Metrics) uint64 { return m.Writes.LogSyncs }),
	counter("sievedb_transaction_commits_total", "Transactions that were committed.", func(m *report.Metrics) uint64 { return m.Transactions.Commits }),
	counter("sievedb_transaction_conflicts_total", "Commits of transactions that met a conflict.", func(m *report.Metrics) uint64 { return m.Transactions.Conflicts }),
	counter("sievedb_transaction_repeats_total", "Functions that Update repeated after a conflict.", func(m *report.Metrics) uint64 { return m.Transactions.Repeats }),
	counter("sievedb_flushes_total", "Memtables written as tables.", func(m *report.Metrics) uint64 { return m.Flushes.Count }),
	counter("sievedb_flush_bytes_total", "Size of the tables that flushes wrote.", func(m *report.Metrics) uint64 { return m.Flushes.Bytes }),
	counter("sievedb_compactions_total", "Merges of tables.", func(m *report.Metrics) uint64 { return m.Compactions.Count }),
	counter("sievedb_subcompactions_total", "Pieces of merges.", func(m *report.Metrics) uint64 { return m.Compactions.Subcompactions }),
	counter("sievedb_trivial_moves_total", "Tables moved down a level unchanged.", func(m *report.Metrics) uint64 { return m.Compactions.TrivialMoves }),
	counter("sievedb_compaction_read_bytes_total", "Bytes of tables that merges read.", func(m *report.Metrics) uint64 { return m.Compactions.BytesRead }),
	counter("sievedb_compaction_written_bytes_total", "Bytes of tables that merges wrote.", func(m *report.Metrics) uint64 { return m.Compactions.BytesWritten }),
	counter("sievedb_compaction_dropped_values_total", "Values that Options.Compaction.Filter dropped.", func(m *report.Metrics) uint64 { return m.Compactions.ValuesDropped }),
	gauge("sievedb_compactions_running", "Compactions that are running.", func(m *report.Metrics) int { return len(m.Compactions.Running) }),
	gauge("sievedb_compaction_pauses", "Calls of PauseCompactions in effect.", func(m *report.Metrics) int { return m.Compactions.Pauses }),
	gauge("sievedb_tables_set_aside", "Tables that are not compacted because of corruption.", func(m *report.Metrics) int { return m.Compactions.TablesSetAside }),
	gauge("sievedb_tables_to_merge", "Tables by which merges of many small ones will reduce their number.", func(m *report.Metrics) int { return m.Compactions.TablesToMerge }),
	counter("sievedb_expired_lookups_total", "Lookups that found an expired value.", func(m *report.Metrics) uint64 { return m.Expiry.Hidden }),
	counter("sievedb_expired_dropped_values_total", "Expired values that compactions dropped.", func(m *report.Metrics) uint64 { return m.Expiry.ValuesDropped }),
	counter("sievedb_expired_dropped_tables_total", "Tables removed because all their values had expired.", func(m *report.Metrics) uint64 { return m.Expiry.TablesDropped }),
	counter("sievedb_loads_total", "Loads committed.", func(m *report.Metrics) uint64 { return m.Loads.Count }),
	counter("sievedb_load_tables_total", "Tables of the loads.", func(m *report.Metrics) uint64 { return m.Loads.Tables }),
	counter("sievedb_load_bytes_total", "Size of the tables of the loads.", func(m *report.Metrics) uint64 { return m.Loads.Bytes }),
	counter("sievedb_ingests_total", "Calls of Ingest that added tables.", func(m *report.Metrics) uint64 { return m.Ingests.Count }),
	{
		Name: "sievedb_ingest_tables_total", Help: "Tables given to Ingest, by what became of them.", Kind: Counter, Labels: []string{"fate"},
		read: func(s *Snapshot, e emitter) {
			i := &s.Metrics.Ingests
			e.add(float64(i.Linked), "linked")
			e.add(float64(i.Copied), "copied")
			e.add(float64(i.Rewritten), "rewritten")
		},
	},
	counter("sievedb_ingest_linked_bytes_total", "Bytes that ingests added without writing them.", func(m *report.Metrics) uint64 { return m.Ingests.BytesLinked }),
	counter("sievedb_ingest_written_bytes_total", "Bytes that ingests wrote.", func(m *report.Metrics) uint64 { return m.Ingests.BytesWritten }),
}

// reasons returns all reasons for which writes may wait, in their order: a rate needs the zero before the first wait.
func reasons(s *Snapshot) []string {
	all := append(report.StallReasons(), slices.Collect(maps.Keys(s.Metrics.Stalls.ByReason))...)
	if now := s.Metrics.Stalls.CurrentReason; now != "" {
		all = append(all, now)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stalls is a family with a value for each reason for which writes may wait.
func stalls(kind Kind, name, help string, get func(report.StallTotal) float64) Family {
	return Family{Name: name, Help: help, Kind: kind, Labels: []string{"reason"}, read: func(s *Snapshot, e emitter) {
		for _, reason := range reasons(s) {
			e.add(get(s.Metrics.Stalls.ByReason[reason]), reason)
		}
	}}
}

var stallFamilies = []Family{
	counter("sievedb_stalls_total", "Waits of writes for a flush or a compaction.", func(m *report.Metrics) uint64 { return m.Stalls.Count }),
	{Name: "sievedb_stall_seconds_total", Help: "Duration of these waits.", Kind: Counter, read: func(s *Snapshot, e emitter) {
		e.add(s.Metrics.Stalls.Duration.Seconds())
	}},
	stalls(Counter, "sievedb_stalls_by_reason_total", "Waits of writes by reason.", func(t report.StallTotal) float64 { return float64(t.Count) }),
	stalls(Counter, "sievedb_stall_seconds_by_reason_total", "Duration of the waits by reason.", func(t report.StallTotal) float64 { return t.Duration.Seconds() }),
	stalls(Gauge, "sievedb_stall_longest_seconds", "Longest wait by reason.", func(t report.StallTotal) float64 { return t.Longest.Seconds() }),
	{Name: "sievedb_stalled", Help: "1 for the reason for which writes wait now, 0 for others.", Kind: Gauge, Labels: []string{"reason"}, read: func(s *Snapshot, e emitter) {
		for _, reason := range reasons(s) {
			e.add(flag(reason == s.Metrics.Stalls.CurrentReason), reason)
		}
	}},
	gauge("sievedb_level0_slowdown_tables", "Tables of level 0 from which writes are slowed.", func(m *report.Metrics) int { return m.Stalls.L0Slowdown }),
	gauge("sievedb_level0_stop_tables", "Tables of level 0 at which writes stop.", func(m *report.Metrics) int { return m.Stalls.L0Stop }),
	{
		Name: "sievedb_operation_seconds", Kind: Histogram, Labels: []string{"operation"},
		Help: fmt.Sprintf("Duration of operations. Of get, put and commit, one in %d is measured, so the count is not their number.", report.LatencySample),
		read: func(s *Snapshot, e emitter) {
			for _, h := range s.Metrics.Latency.Named() {
				e(Value{Labels: []string{strings.ReplaceAll(h.Name, " ", "_")}, Histogram: h.LatencyHistogram})
			}
		},
	},
}

// named is a family with a value for each name of a filter policy.
func named(name, help string, get func(t *report.TableMetrics) map[string]int) Family {
	return Family{Name: name, Help: help, Kind: Gauge, Labels: []string{"policy"}, read: func(s *Snapshot, e emitter) {
		by := get(&s.Metrics.Tables)
		for _, policy := range slices.Sorted(maps.Keys(by)) {
			e.add(float64(by[policy]), labelText(policy))
		}
	}}
}

var memoryFamilies = []Family{
	gauge("sievedb_memtables", "Memtables.", func(m *report.Metrics) int { return m.Memtables.Count }),
	gauge("sievedb_memtable_bytes", "Memory of all memtables.", func(m *report.Metrics) uint64 { return m.Memtables.Bytes }),
	gauge("sievedb_memtable_limit_bytes", "Maximum of the memory of memtables.", func(m *report.Metrics) uint64 { return m.Memtables.Limit }),
	gauge("sievedb_cache_capacity_bytes", "Budget of the block cache.", func(m *report.Metrics) int64 { return m.Cache.Capacity }),
	gauge("sievedb_cache_bytes", "Size of the block cache.", func(m *report.Metrics) int64 { return m.Cache.Bytes }),
	gauge("sievedb_cache_blocks", "Blocks in the block cache.", func(m *report.Metrics) int64 { return m.Cache.Blocks }),
	gauge("sievedb_cache_compressed_bytes", "Size of the blocks that the cache holds compressed.", func(m *report.Metrics) int64 { return m.Cache.CompressedBytes }),
	gauge("sievedb_cache_compressed_blocks", "Blocks that the cache holds compressed.", func(m *report.Metrics) int64 { return m.Cache.CompressedBlocks }),
	gauge("sievedb_cache_table_bytes", "Part of the block cache's budget that filters and indexes use instead.", func(m *report.Metrics) int64 { return m.Cache.TableBytes }),
	gauge("sievedb_memory_limit_bytes", "Budget of blocks, filters and indexes together.", func(m *report.Metrics) int64 { return m.Cache.Memory }),
	gauge("sievedb_table_memory_used_bytes", "Memory of filters and indexes, including those that only iterators keep.", func(m *report.Metrics) int64 { return m.Tables.MemoryBytes }),
	gauge("sievedb_table_memory_limit_bytes", "Maximum of the memory of filters and indexes.", func(m *report.Metrics) int64 { return m.Tables.MemoryLimit }),
	gauge("sievedb_table_memory_needed_bytes", "Estimated memory of filters and indexes if all tables were open.", func(m *report.Metrics) int64 { return m.Tables.MemoryNeeded }),
	counter("sievedb_tables_closed_for_memory_total", "Tables closed because filters and indexes reached their limit.", func(m *report.Metrics) uint64 { return m.Tables.ClosedForMemory }),
	gauge("sievedb_open_tables", "Tables whose file is open.", func(m *report.Metrics) int { return m.Tables.Open }),
	gauge("sievedb_obsolete_tables", "Table files that only readers keep.", func(m *report.Metrics) int { return m.Tables.Obsolete }),
	gauge("sievedb_value_tables", "Value tables.", func(m *report.Metrics) int { return m.Tables.ValueTables }),
	gauge("sievedb_value_table_bytes", "Size of the value tables.", func(m *report.Metrics) uint64 { return m.Tables.ValueBytes }),
	gauge("sievedb_value_garbage_bytes", "Estimated bytes of value tables that nothing refers to; values whose deletion or replacement no compaction has met are left out.", func(m *report.Metrics) uint64 { return m.Tables.ValueGarbage }),
	counter("sievedb_table_openings_total", "Openings of tables.", func(m *report.Metrics) uint64 { return m.Tables.Openings }),
	counter("sievedb_table_opening_reads_total", "Reads for opening tables.", func(m *report.Metrics) uint64 { return m.Tables.OpeningReads }),
	counter("sievedb_table_opening_bytes_total", "Bytes read for opening tables.", func(m *report.Metrics) uint64 { return m.Tables.OpeningBytes }),
	counter("sievedb_table_prefetches_total", "Tables that the system was asked to read into the page cache.", func(m *report.Metrics) uint64 { return m.Tables.Prefetches }),
	counter("sievedb_table_prefetched_bytes_total", "Bytes of these tables that were not in the page cache.", func(m *report.Metrics) uint64 { return m.Tables.PrefetchedBytes }),
	{
		Name: "sievedb_table_memory_bytes", Help: "Memory of the filters and indexes of open tables.", Kind: Gauge, Labels: []string{"part"},
		read: func(s *Snapshot, e emitter) {
			t := &s.Metrics.Tables
			e.add(float64(t.FilterBytes), "filter")
			e.add(float64(t.RangeFilterBytes), "range_filter")
			e.add(float64(t.IndexBytes), "index")
		},
	},
	{
		Name: "sievedb_tables_without_usable_filter", Help: "Open tables that every lookup must read.", Kind: Gauge, Labels: []string{"cause"},
		read: func(s *Snapshot, e emitter) {
			t := &s.Metrics.Tables
			e.add(float64(t.WithoutFilter), "none")
			e.add(float64(t.WithUnknownFilter), "unknown")
			e.add(float64(t.WithDamagedFilter), "damaged")
		},
	},
	gauge("sievedb_tables_with_fallback_filter", "Open tables whose best filter is damaged, and another one is used.", func(m *report.Metrics) int { return m.Tables.WithFallbackFilter }),
	named("sievedb_tables_with_filter", "Open tables whose filter is used, by policy.", func(t *report.TableMetrics) map[string]int { return t.FilterPolicies }),
	named("sievedb_tables_with_unknown_filter", "Open tables whose filter is unknown, by policy.", func(t *report.TableMetrics) map[string]int { return t.UnknownFilters }),
}

// disk is a family of stores whose files can be measured.
func disk(name, help string, labels []string, emit func(u *report.DiskUsage, e emitter)) Family {
	return Family{Name: name, Help: help, Kind: Gauge, Labels: labels, read: func(s *Snapshot, e emitter) {
		if s.Disk != nil {
			emit(s.Disk, e)
		}
	}}
}

var diskFamilies = []Family{
	disk("sievedb_disk_bytes", "Size of the files in the directory.", nil, func(u *report.DiskUsage, e emitter) { e.add(float64(u.Total)) }),
	disk("sievedb_disk_part_bytes", "Size of the files in the directory, by what they are for.", []string{"part"}, func(u *report.DiskUsage, e emitter) {
		e.add(float64(u.Tables), "tables")
		e.add(float64(u.UnlistedTables), "unlisted_tables")
		e.add(float64(u.Logs), "logs")
		e.add(float64(u.Manifest), "manifest")
		e.add(float64(u.Lost), "lost")
		e.add(float64(u.Changes), "changes")
		e.add(float64(u.Other), "other")
	}),
	disk("sievedb_log_reserved_bytes", "Part of the logs that has no records yet.", nil, func(u *report.DiskUsage, e emitter) { e.add(float64(u.LogsReserved)) }),
	{Name: "sievedb_disk_free_bytes", Help: "Bytes that may still be written to the file system of the directory.", Kind: Gauge, read: func(s *Snapshot, e emitter) {
		if s.Free != nil {
			e.add(float64(*s.Free))
		}
	}},
}

// flag is the value of a gauge for a condition.
func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// seconds returns a time in seconds since 1970.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

// timestamp is a family of a time, which has no value while the time is zero.
func timestamp(name, help string, get func(m *report.Metrics) time.Time) Family {
	return Family{Name: name, Help: help, Kind: Gauge, read: func(s *Snapshot, e emitter) {
		if t := get(s.Metrics); !t.IsZero() {
			e.add(seconds(t))
		}
	}}
}

// build returns the version of this module and that of Go in the program.
var build = sync.OnceValues(func() (version, goVersion string) {
	version = "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, runtime.Version()
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == "github.com/sievedb/sievedb" && m.Version != "" {
			version = m.Version
		}
	}
	return version, info.GoVersion
})

var stateFamilies = []Family{
	{Name: "sievedb_build_info", Help: "1, with the version of SieveDB, and that of Go.", Kind: Gauge, Labels: []string{"version", "goversion"}, read: func(_ *Snapshot, e emitter) {
		version, goVersion := build()
		e.add(1, version, goVersion)
	}},
	timestamp("sievedb_opened_timestamp_seconds", "When the store was opened, in seconds since 1970.", func(m *report.Metrics) time.Time { return m.Opened }),
	{Name: "sievedb_uptime_seconds", Help: "Time since the store was opened.", Kind: Gauge, read: func(s *Snapshot, e emitter) {
		if !s.Metrics.Opened.IsZero() && !s.Time.IsZero() {
			e.add(s.Time.Sub(s.Metrics.Opened).Seconds())
		}
	}},
	gauge("sievedb_last_sequence", "Sequence number of the newest visible write.", func(m *report.Metrics) uint64 { return m.LastSequence }),
	gauge("sievedb_open_iterators", "Iterators that were not closed.", func(m *report.Metrics) int { return m.OpenIterators }),
	gauge("sievedb_open_snapshots", "Snapshots that were not closed.", func(m *report.Metrics) int { return m.OpenSnapshots }),
	gauge("sievedb_open_transactions", "Transactions that were not closed.", func(m *report.Metrics) int { return m.OpenTransactions }),
	gauge("sievedb_background_error", "1 if writes have ended, background work fails, or tables are corrupt.", func(m *report.Metrics) int { return int(flag(m.BackgroundError != nil)) }),
	timestamp("sievedb_expiry_timestamp_seconds", "Time of the store by which values expire, in seconds since 1970.", func(m *report.Metrics) time.Time { return m.Expiry.Time }),
	timestamp("sievedb_expiry_time_seconds", "The former name of sievedb_expiry_timestamp_seconds.", func(m *report.Metrics) time.Time { return m.Expiry.Time }),
}

// lag is a family of followers whose lag is known.
func lag(name, help string, get func(*report.Lag) float64) Family {
	return Family{Name: name, Help: help, Kind: Gauge, read: func(s *Snapshot, e emitter) {
		if s.Lag != nil {
			e.add(get(s.Lag))
		}
	}}
}

var followerFamilies = []Family{
	{Name: "sievedb_follower_up", Help: "1 if the lag of the follower could be read.", Kind: Gauge, read: func(s *Snapshot, e emitter) {
		switch {
		case s.Lag != nil:
			e.add(1)
		case s.Follower:
			e.add(0)
		}
	}},
	lag("sievedb_follower_lag_operations", "Operations in the logs that the follower does not show.", func(l *report.Lag) float64 { return float64(l.Operations) }),
	lag("sievedb_follower_lag_bytes", "Bytes of logs and MANIFEST that the follower has not read.", func(l *report.Lag) float64 { return float64(l.Bytes) }),
	lag("sievedb_follower_lag_seconds", "Time until which everything is shown, as an age.", func(l *report.Lag) float64 { return l.Time.Seconds() }),
	lag("sievedb_follower_sequence", "Sequence number of the last operation shown.", func(l *report.Lag) float64 { return float64(l.Seq) }),
}
