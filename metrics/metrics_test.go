package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// filler gives each number of a struct a value of its own, which is even, so that half of it differs
// from all others too.
type filler struct {
	next   float64
	values map[float64]string // the path of each
}

func (f *filler) fill(v reflect.Value, path string) {
	number := func(scale float64) int64 {
		f.next += 1024
		f.values[f.next/scale] = path
		return int64(f.next)
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(number(1), 0)))
	case v.Type() == reflect.TypeFor[report.LatencyHistogram]():
		d := time.Duration(number(1e9))
		v.Set(reflect.ValueOf(report.LatencyHistogram{Count: 1, Sum: d, Buckets: []report.LatencyBucket{{From: d, To: d + 1, Count: 1}}}))
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(number(1e9))
	case v.CanInt():
		v.SetInt(number(1))
	case v.CanUint():
		v.SetUint(uint64(number(1)))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), path)
		}
	case v.Kind() == reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("a name"), value)
	case v.Kind() == reflect.String:
		v.SetString("a reason")
	case v.Kind() == reflect.Slice, v.Type() == reflect.TypeFor[error](): // Running and BackgroundError
	default:
		panic(path + " has a kind that this test does not know")
	}
}

func filled() (Snapshot, map[float64]string) {
	f := filler{values: map[float64]string{}}
	s := Snapshot{Metrics: new(report.Metrics), Follower: true, Lag: new(report.Lag)}
	f.fill(reflect.ValueOf(s.Metrics).Elem(), "Metrics")
	f.fill(reflect.ValueOf(s.Lag).Elem(), "Lag")
	s.Disk, s.Free, s.Time = new(report.DiskUsage), new(uint64), s.Metrics.Opened.Add(time.Hour)
	f.fill(reflect.ValueOf(s.Disk).Elem(), "Disk")
	f.fill(reflect.ValueOf(s.Free).Elem(), "Free")
	s.Metrics.BackgroundError = errors.New("the disk is full")
	s.Metrics.Compactions.Running = make([]report.RunningCompaction, 3)
	return s, f.values
}

// Every number of report.Metrics and report.Lag is the value of a family.
func TestEveryFigureIsExported(t *testing.T) {
	s, values := filled()
	for _, f := range Families() {
		for _, v := range f.Values(s) {
			if v.Histogram != nil {
				delete(values, v.Histogram.Sum.Seconds())
			}
			delete(values, v.Value)
			require.Len(t, v.Labels, len(f.Labels), f.Name)
		}
	}
	for value, path := range values {
		require.Regexp(t, `\.(Filter|Range)Checks$`, path, "%g: no family exports it", value) // these are sums of results
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Families() {
		require.Regexp(t, `^sievedb_[a-z0-9_]+$`, f.Name)
		require.False(t, seen[f.Name], "%s: there are two", f.Name)
		seen[f.Name] = true
		require.Equal(t, f.Kind == Counter, strings.HasSuffix(f.Name, "_total"), f.Name)
		require.Regexp(t, `^[A-Z1].*\.$`, f.Help, f.Name)
		require.NotContains(t, f.Help, "\\", f.Name)
		if strings.Contains(f.Help, "since 1970") {
			require.Regexp(t, `_timestamp_seconds$`, f.Name)
		}
	}
}

// A rate over the first wait for a reason needs the zero before it, and so does an alert on its absence.
func TestStallReasonsAreExportedBeforeTheirFirstWait(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, WriteText(&text, Snapshot{Metrics: &report.Metrics{}}))
	for _, reason := range report.StallReasons() {
		for _, name := range []string{"sievedb_stalls_by_reason_total", "sievedb_stall_seconds_by_reason_total", "sievedb_stall_longest_seconds", "sievedb_stalled"} {
			require.Contains(t, text.String(), "\n"+name+`{reason="`+reason+"\"} 0\n")
		}
	}
	text.Reset()
	require.NoError(t, WriteText(&text, Snapshot{Metrics: &report.Metrics{Stalls: report.StallMetrics{CurrentReason: report.StopLevel0}}}))
	require.Contains(t, text.String(), "\nsievedb_stalled{reason=\"level 0 is full\"} 1\n")
	require.Contains(t, text.String(), "\nsievedb_stalled{reason=\"level 0 has many tables\"} 0\n")
}

// A store in a directory has its size, its free space, its age and its limits.
func TestFiguresOfTheDirectory(t *testing.T) {
	o := &db.Options{}
	o.Compaction.L0Slowdown, o.Compaction.L0Stop = 21, 31
	store, err := db.Open(t.TempDir(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	var text bytes.Buffer
	require.NoError(t, WriteText(&text, Read(store, false)))
	for _, line := range []string{
		`sievedb_disk_bytes [1-9]`, `sievedb_disk_part_bytes\{part="logs"\} [1-9]`, `sievedb_log_reserved_bytes \d`,
		`sievedb_opened_timestamp_seconds [1-9]`, `sievedb_uptime_seconds [\d.e-]+`, `sievedb_build_info\{version="[^"]+",goversion="go1[^"]+"\} 1`,
		`sievedb_level0_slowdown_tables 21`, `sievedb_level0_stop_tables 31`,
	} {
		require.Regexp(t, `(?m)^`+line, text.String())
	}
	if _, known := store.FreeBytes(); known {
		require.Regexp(t, `(?m)^sievedb_disk_free_bytes [1-9]`, text.String())
	}
}

// What the text format has is what the families have, and each line is one of the format.
func TestTextHasAllValues(t *testing.T) {
	s, _ := filled()
	s.Metrics.Tables.UnknownFilters = map[string]int{"a \"name\"\n\xff": 7}
	var text bytes.Buffer
	require.NoError(t, WriteText(&text, s, "db", `C:\data`))
	line := regexp.MustCompile(`^(# (HELP|TYPE) \w+ .+|\w+\{db="C:\\\\data"(,\w+="([^"\\\n]|\\[\\n"])*")*\} [0-9.e+-]+)$`)
	lines := 0
	for _, l := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		require.Regexp(t, line, l)
		lines++
	}
	want := 0
	for _, f := range Families() {
		want += 2
		for _, v := range f.Values(s) {
			want++
			if v.Histogram != nil {
				want += len(Bounds) + 2
			}
		}
	}
	require.Equal(t, want, lines)
	require.Contains(t, text.String(), `sievedb_tables_with_unknown_filter{db="C:\\data",policy="\"a \\\"name\\\"\\n\\xff\""} 7`)
	require.Contains(t, text.String(), "sievedb_compactions_running{db=\"C:\\\\data\"} 3\n")

	text.Reset()
	require.NoError(t, WriteText(&text, Snapshot{Metrics: &report.Metrics{}}))
	require.Contains(t, text.String(), "\nsievedb_lookups_total 0\n")
	require.NotContains(t, text.String(), "follower")
	require.ErrorIs(t, WriteText(refusing{}, s), errRefused)
}

var errRefused = errors.New("refused")

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errRefused }

// Durations are counted in the first bucket whose bound is above them.
func TestCumulativeCounts(t *testing.T) {
	h := &report.LatencyHistogram{Count: 4, Buckets: []report.LatencyBucket{
		{From: 10, To: 11, Count: 1}, {From: 248, To: 256, Count: 1}, {From: 256, To: 272, Count: 1}, {From: time.Minute, To: time.Minute + 1, Count: 1},
	}}
	counts := Cumulative(h)
	require.EqualValues(t, 256, Bounds[0])
	require.EqualValues(t, 2, counts[0])
	require.EqualValues(t, 3, counts[1])
	require.EqualValues(t, 3, counts[len(counts)-1], "the longest one is above all bounds")
}

// An expvar.Var is anything with this String.
func TestVariableIsJSON(t *testing.T) {
	store, err := db.Open("dir", &db.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, store.Put([]byte("key"), []byte("value"), nil))
	_, err = store.Get([]byte("key"))
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(Var(store).String()), &all))
	require.EqualValues(t, 1, all["sievedb_lookups_found_total"])
	require.EqualValues(t, 0, all["sievedb_block_reads_total"].(map[string]any)["6"].(map[string]any)["disk"])
	fsync := all["sievedb_operation_seconds"].(map[string]any)["fsync"].(map[string]any)
	require.EqualValues(t, 1, fsync["count"])
	require.Positive(t, fsync["p99"])
	require.True(t, json.Valid([]byte(Var(nil).String())))
	require.True(t, json.Valid([]byte(Var((*db.DB)(nil)).String())))
}

type follower struct{ err error }

func (follower) Metrics() *report.Metrics   { return &report.Metrics{} }
func (f follower) Lag() (report.Lag, error) { return report.Lag{Operations: 5}, f.err }

// The lag is exported for followers only, and one that cannot be read does not hide other figures.
func TestLagOfFollowers(t *testing.T) {
	text := func(s Snapshot) string {
		var b bytes.Buffer
		require.NoError(t, WriteText(&b, s))
		return b.String()
	}
	require.Contains(t, text(Read(follower{}, true)), "\nsievedb_follower_lag_operations 5\n")
	require.NotContains(t, text(Read(follower{}, false)), "follower")
	failed := text(Read(follower{errRefused}, true))
	require.Contains(t, failed, "\nsievedb_follower_up 0\n")
	require.NotContains(t, failed, "\nsievedb_follower_lag")
	require.Contains(t, failed, "sievedb_lookups_total")
}
