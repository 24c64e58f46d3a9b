package report

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTextOfMetrics(t *testing.T) {
	m := Metrics{
		Lookups:      LookupMetrics{Count: 1000, Found: 600, MemtableHits: 100, MemtableSearches: 104},
		Writes:       WriteMetrics{Batches: 1, Bytes: 120, LogBytes: 2048, LogSyncs: 1},
		Transactions: TransactionMetrics{Commits: 7, Conflicts: 3, Repeats: 2},
		Flushes:      FlushMetrics{Count: 3, Bytes: 3 << 20},
		Compactions: CompactionMetrics{
			Count: 2, Subcompactions: 5, TrivialMoves: 1, BytesRead: 5 << 30, BytesWritten: 4 << 30, Pauses: 1, TablesSetAside: 2,
			Running: []RunningCompaction{{OutputLevel: 5, InputTables: 6, InputBytes: 64 << 20, BytesRead: 16 << 20, Duration: 1500 * time.Millisecond}},
		},
		Loads:  LoadMetrics{Count: 1, Tables: 4, Bytes: 8 << 20},
		Expiry: ExpiryMetrics{Hidden: 7, ValuesDropped: 1, TablesDropped: 2},
		Stalls: StallMetrics{
			Count: 2, Duration: 30 * time.Millisecond, CurrentReason: "level 0 is full",
			ByReason: map[string]StallTotal{"level 0 is full": {2, 30 * time.Millisecond, 20 * time.Millisecond}},
		},
		Memtables: MemtableMetrics{Count: 1, Bytes: 1 << 20, Limit: 24 << 20},
		Cache:     CacheMetrics{Capacity: 8 << 20, Bytes: 512},
		Tables: TableMetrics{
			Open: 7, FilterBytes: 1024, WithoutFilter: 1, WithFallbackFilter: 1,
			ClosedForMemory: 40, MemoryLimit: 3 << 19, MemoryNeeded: 7 << 19,
		},
		OpenIterators:   1,
		BackgroundError: errors.New("the disk is full"),
	}
	m.Levels[0] = LevelMetrics{Tables: 1, Bytes: 1536, Reads: 1000, FilterChecks: 1000, FilterNegatives: 990, FilterTruePositives: 5, FilterFalsePositives: 5}
	m.Levels[6] = LevelMetrics{Tables: 6, Bytes: 6 << 40, BlocksFromCache: 3, BlocksFromDisk: 1, RangeChecks: 10, RangeNegatives: 9, RangeFalsePositives: 1}
	m.Latency.Get = LatencyHistogram{Count: 2, Sum: 30, Buckets: []LatencyBucket{{From: 10, To: 11, Count: 1}, {From: 20, To: 21, Count: 1}}}
	want := strings.TrimLeft(`
  level  tables     size  consulted  excluded  false positives  blocks cached  blocks from disk
      0       1  1.5 KiB       1000       990                5              0                 0
      6       6  6.0 TiB          0         0                0              3                 1
    all       7  6.0 TiB       1000       990                5              3                 1
lookups      1000, found 600; memtables answered 100 of 104 searches
filters      1000 checks, false-positive rate 0.503 %; 1 of 4 blocks from disk
ranges       10 checks of range filters, 9 tables skipped, false-positive rate 10 %
writes       1 batch (120 B); log 2.0 KiB, 1 fsync
commits      7 commits of transactions, 3 conflicts, 2 repeats
flushes      3 (3.0 MiB)
compactions  2 in 5 pieces, and 1 move; read 5.0 GiB, written 4.0 GiB
             running for 1.5s: 6 tables of levels 0 and 5, 16.0 MiB of 64.0 MiB read
             1 pause in effect
loads        1 with 4 tables (8.0 MiB)
expiry       7 lookups found expired values; 1 value and 2 tables dropped
stalls       2 waits, 30ms
             level 0 is full: 2 waits, 30ms, longest 20ms
memory       memtables 1.0 MiB of 24.0 MiB, block cache 512 B of 8.0 MiB, filters 1.0 KiB, range filters 0 B, indexes 0 B
open         7 tables, 1 iterator, 0 snapshots, 0 transactions; 0 tables kept for readers
latency      get: median 10ns, 99 % 20ns, longest 20ns (2 measured)
attention    1 open table without a usable filter: 1 have none, 0 an unknown one, 0 a damaged one
attention    40 tables closed for memory, which lookups open again: filters and indexes may use 1.5 MiB; to keep all open takes 2.0 MiB more at least
attention    1 open table with a damaged filter use another one
attention    2 tables set aside because of corruption
attention    writers wait: level 0 is full
attention    the disk is full
`, "\n")
	require.Equal(t, want, m.String())
	m.Tables.MemoryLimit = m.Tables.MemoryNeeded // it was smaller before
	require.NotContains(t, m.String(), "closed for memory")
	empty := (&Metrics{}).String()
	require.Contains(t, empty, "false-positive rate unknown")
	require.NotContains(t, empty, "attention")
}
