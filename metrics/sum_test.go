package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/metrics"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// counts returns the value of each line of a text.
func counts(t *testing.T, text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") {
			name, value, found := strings.Cut(line, " ")
			if strings.Contains(line, "} ") {
				name, value, found = strings.Cut(line, "} ")
				name += "}"
			}
			require.True(t, found, line)
			require.NotContains(t, all, name, "twice")
			all[name] = value
		}
	}
	return all
}

func TestStoresAreSummedUp(t *testing.T) {
	free := func(n uint64) *uint64 { return &n }
	store := func(lookups, tables uint64, freeBytes uint64, from, to time.Duration) metrics.Snapshot {
		m := &report.Metrics{}
		m.Lookups.Count = lookups
		m.Levels[0].Tables = int(tables)
		m.Stalls.L0Slowdown, m.Cache.Capacity = 20, 100
		m.Latency.Fsync = report.LatencyHistogram{Count: 2, Sum: 3 * from, Buckets: []report.LatencyBucket{{From: from, To: to, Count: 2}}}
		return metrics.Snapshot{Metrics: m, Free: free(freeBytes)}
	}
	stores := []metrics.Snapshot{
		store(3, 1, 700, time.Millisecond, time.Millisecond+1), store(4, 0, 500, time.Microsecond, time.Microsecond+1),
		store(0, 2, 600, time.Millisecond, time.Millisecond+1),
	}
	var out strings.Builder
	require.NoError(t, metrics.WriteSum(&out, stores, "group", "all"))
	got := counts(t, out.String())
	for name, want := range map[string]string{
		`sievedb_lookups_total{group="all"}`:                                        "7",
		`sievedb_level_tables{group="all",level="0"}`:                               "3",
		`sievedb_level0_slowdown_tables{group="all"}`:                               "60",
		`sievedb_cache_capacity_bytes{group="all"}`:                                 "100",
		`sievedb_disk_free_bytes{group="all"}`:                                      "500",
		`sievedb_background_error{group="all"}`:                                     "0",
		`sievedb_operation_seconds_count{group="all",operation="fsync"}`:            "6",
		`sievedb_operation_seconds_bucket{group="all",operation="fsync",le="+Inf"}`: "6",
	} {
		require.Equal(t, want, got[name], name)
	}
	for name := range got {
		require.NotContains(t, name, `level="6"`, "an empty level is left out")
		require.NotContains(t, name, `operation="get"`)
	}
	for _, f := range metrics.Families() {
		if f.Name == "sievedb_operation_seconds" {
			for _, v := range f.Sum(stores) {
				require.Equal(t, v.Labels[0] == "fsync", v.Histogram.Quantile(0.9) == time.Millisecond, v.Labels)
			}
		}
	}
}

// The sum of one store is the store.
func TestTheSumOfOneStoreIsTheStore(t *testing.T) {
	d, err := db.Open("d", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	require.NoError(t, d.Put([]byte("k"), []byte("v"), db.Sync))
	s := metrics.Read(d, false)
	var one, sum strings.Builder
	require.NoError(t, metrics.WriteText(&one, s))
	require.NoError(t, metrics.WriteSum(&sum, []metrics.Snapshot{s}))
	all := counts(t, one.String())
	for name, value := range counts(t, sum.String()) {
		require.Equal(t, all[name], value, name)
	}
	require.Greater(t, len(all), len(counts(t, sum.String())))
	require.NoError(t, metrics.WriteSum(&sum, nil), "no store has no values")
}
