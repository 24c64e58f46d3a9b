package metrics

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/report"
)

// extreme says how the values of a gauge of several stores become one, if their sum means nothing.
var extreme = map[string]func(a, b float64) float64{
	"sievedb_stall_longest_seconds":    largest,
	"sievedb_stalled":                  largest,
	"sievedb_cache_capacity_bytes":     largest, // stores that share a cache have the same one
	"sievedb_memory_limit_bytes":       largest,
	"sievedb_table_memory_limit_bytes": largest,
	"sievedb_disk_free_bytes":          smallest,
	"sievedb_build_info":               largest,
	"sievedb_opened_timestamp_seconds": largest,
	"sievedb_uptime_seconds":           smallest,
	"sievedb_background_error":         largest,
	"sievedb_expiry_timestamp_seconds": largest,
	"sievedb_expiry_time_seconds":      largest,
	"sievedb_follower_up":              smallest,
	"sievedb_follower_lag_seconds":     largest,
}

func largest(a, b float64) float64  { return max(a, b) }
func smallest(a, b float64) float64 { return min(a, b) }

// Sum returns the values of a family for several stores together. Counters, histograms and most gauges are added. The
// worst value is taken of gauges whose sum means nothing: the least free space, the longest stall, 1 for a background
// error of any store. The limits of level 0 are added like its tables, so that comparing them compares averages.
func (f *Family) Sum(stores []Snapshot) (all []Value) {
	at := map[string]int{}
	for _, s := range stores {
		for _, v := range f.Values(s) {
			key := strings.Join(v.Labels, "\xff")
			i, found := at[key]
			if !found {
				at[key] = len(all)
				all = append(all, v)
				continue
			}
			switch combine, known := extreme[f.Name]; {
			case f.Kind == Histogram:
				all[i].Histogram = added(all[i].Histogram, v.Histogram)
			case known:
				all[i].Value = combine(all[i].Value, v.Value)
			default:
				all[i].Value += v.Value
			}
		}
	}
	return all
}

// added returns the histogram of what both have measured.
func added(a, b *report.LatencyHistogram) *report.LatencyHistogram {
	h := &report.LatencyHistogram{Count: a.Count + b.Count, Sum: a.Sum + b.Sum}
	buckets := slices.Concat(a.Buckets, b.Buckets)
	slices.SortFunc(buckets, func(x, y report.LatencyBucket) int { return cmp.Compare(x.From, y.From) })
	for _, bucket := range buckets {
		if last := len(h.Buckets) - 1; last >= 0 && h.Buckets[last].From == bucket.From {
			h.Buckets[last].Count += bucket.Count
			continue
		}
		h.Buckets = append(h.Buckets, bucket)
	}
	return h
}

// WriteSum writes several stores as one, as WriteText writes one: see Family.Sum. It leaves out what is zero of a
// level, and histograms that have measured nothing, to be short.
func WriteSum(w io.Writer, stores []Snapshot, labels ...string) error {
	t := textWriter{Writer: bufio.NewWriter(w), common: labels}
	for i := range families {
		f := &families[i]
		t.family(f, slices.DeleteFunc(f.Sum(stores), func(v Value) bool {
			if v.Histogram != nil {
				return v.Histogram.Count == 0
			}
			return v.Value == 0 && slices.Contains(f.Labels, "level")
		}))
	}
	return t.Flush()
}
