package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	reports "github.com/sievedb/sievedb/report"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// requireGolden compares text with a file in testdata.
func requireGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// fixedReport returns a report with fixed figures.
func fixedReport() *report {
	r := &report{Bits: 10, Words: true, CacheBytes: 1 << 20}
	m := &db.Metrics{}
	m.Levels[0] = reports.LevelMetrics{Tables: 1, Bytes: 1_200_000}
	m.Levels[2] = reports.LevelMetrics{Tables: 6, Bytes: 11_000_000}
	r.setShape(m)
	r.Stored.Off = lookups{
		Gets: 170_421, Found: 170_421, TablesConsulted: 323_800, IndexReads: 7, DataReads: 310_000, OpeningReads: 14,
		StoreIndexReads: 7, StoreDataReads: 310_000, DiskReads: 310_021, BytesRead: 700_000_000, ReadsPerGet: 1.8191, MicrosPerOp: 5.5,
	}
	r.Stored.On = lookups{
		Gets: 170_421, Found: 170_421, TablesConsulted: 323_800, FilterChecks: 323_800, FilterNegatives: 152_000,
		FilterTruePositives: 170_421, FilterFalsePositives: 1_379, FalsePositiveRate: 0.00899, PredictedRate: 0.00844,
		IndexReads: 7, DataReads: 162_000, StoreIndexReads: 7, StoreDataReads: 162_000, OpeningReads: 21,
		DiskReads: 162_028, BytesRead: 380_000_000, ReadsPerGet: 0.9508, MicrosPerOp: 3.2, FilterBytes: 213_100,
	}
	r.Absent.Off = lookups{
		Gets: 100_000, TablesConsulted: 200_000, IndexReads: 7, DataReads: 190_000, StoreIndexReads: 7, StoreDataReads: 190_000,
		OpeningReads: 14, DiskReads: 190_021, BytesRead: 410_000_000, ReadsPerGet: 1.90021, MicrosPerOp: 5.75,
	}
	r.Absent.On = lookups{
		Gets: 100_000, TablesConsulted: 200_000, FilterChecks: 200_000, FilterNegatives: 198_260, FilterFalsePositives: 1_740,
		FalsePositiveRate: 0.0087, PredictedRate: 0.00844, IndexReads: 7, DataReads: 1_650, StoreIndexReads: 7, StoreDataReads: 1_650,
		OpeningReads: 21, DiskReads: 1_678, BytesRead: 4_000_000, ReadsPerGet: 0.01678, MicrosPerOp: 0.31, FilterBytes: 213_100,
	}
	return r
}

func TestReportReadsWell(t *testing.T) {
	r := fixedReport()
	r.finish(true)
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Zero(t, r.failed())
	requireGolden(t, "report.txt", out.String())
}

func TestTheChartOfReadsStandsAlone(t *testing.T) {
	r := fixedReport()
	r.finish(true)
	name := filepath.Join(t.TempDir(), "reads.svg")
	require.NoError(t, r.writeSVG(name))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var file struct {
		Title string `xml:"title"`
		Desc  string `xml:"desc"`
		Style string `xml:"style"`
	}
	require.NoError(t, xml.Unmarshal(text, &file))
	require.Equal(t, "Disk reads per lookup: 113 times fewer for absent keys", file.Title)
	require.Equal(t, "100,000 absent words: without filters 1.90, with filters 0.0168. "+
		"170,421 stored words: without filters 1.82, with filters 0.951.", file.Desc)
	require.Contains(t, file.Style, "@media screen and (prefers-color-scheme: dark)")
	require.Contains(t, string(text), "level 2: 6\u00a0tables of")
}

func TestReportFailsIfAPromiseIsBroken(t *testing.T) {
	tests := []struct {
		name string
		harm func(*report)
		want []string // names of the checks that fail
	}{
		{"a stored key was missed", func(r *report) { r.Stored.On.Found-- }, []string{"every stored key is found"}},
		{"an absent key was found", func(r *report) { r.Absent.Off.Found++ }, []string{"no absent key is found"}},
		{"data reads differ", func(r *report) { r.Absent.On.StoreDataReads++ }, []string{"file system and store count the same reads"}},
		{"differences that cancel out", func(r *report) { r.Absent.On.StoreIndexReads++; r.Stored.On.StoreIndexReads-- }, []string{"file system and store count the same reads"}},
		{"an absent key costs too much", func(r *report) { r.Absent.On.ReadsPerGet = 0.0201 }, []string{"an absent key costs at most 0.02 disk reads"}},
		{"too little is saved", func(r *report) { r.Absent.Off.DiskReads = 49 * r.Absent.On.DiskReads }, []string{"at least 50 times fewer than without filters"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fixedReport()
			tt.harm(r)
			r.finish(true)
			var failed []string
			for _, c := range r.Checks {
				if !c.Passed {
					failed = append(failed, c.Name)
				}
			}
			require.Equal(t, tt.want, failed)
			var out bytes.Buffer
			require.NoError(t, r.write(&out))
			require.Contains(t, out.String(), "\nFAIL  "+tt.want[0]+":")
		})
	}
}

func TestReportWithoutReadsHasNoFactor(t *testing.T) {
	r := fixedReport()
	r.Absent.On.DiskReads = 0
	r.finish(true)
	require.Nil(t, r.Absent.Factor)
	require.Zero(t, r.failed())
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Contains(t, out.String(), "with them,\nnone left. A filter")

	r.Absent.Off.DiskReads = 0
	out.Reset()
	require.NoError(t, r.write(&out))
	require.Contains(t, out.String(), "with them,\nsince no table's key range covers such a key. A filter")
}

func TestResultLines(t *testing.T) {
	threads := []*thread{
		{steps: 300, found: 200, bytes: 3 << 20, elapsed: time.Second},
		{steps: 100, found: 50, bytes: 1 << 20, elapsed: time.Second},
	}
	r := newResult("readrandom", threads, time.Second)
	r.setAllocations(allocations{objects: 100}, allocations{objects: 900, bytes: 4000})
	r.setFound(threads)
	require.Equal(t, "readrandom       :    5000.000 micros/op;         400 ops/sec;     4.0 MB/s;   2.00 allocs/op; 250 of 400 found", r.String())
	r.Latency = &latency{Min: 1, Mean: 2, P50: 1.5, P99: 7, P999: 9.25, Max: 10}
	require.Contains(t, r.String(), "\n                   micros: min 1.00  mean 2.00  p50 1.50  p99 7.00  p99.9 9.25  max 10.00")
}

func TestNumbersAreFormattedForReaders(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, bench.Grouped(n))
	}
	for n, want := range map[uint64]string{0: "0 B", 10239: "10,239 B", 10240: "10.0 KiB", 1 << 20: "1.0 MiB", 1 << 30: "1.0 GiB"} {
		require.Equal(t, want, bench.SizeText(n))
	}
	require.Equal(t, "-1,000", groupedSigned(-1000))
	require.Equal(t, "1 table", bench.Counted(1, "table"))
	require.Equal(t, "2 tables", bench.Counted(2, "table"))
}
