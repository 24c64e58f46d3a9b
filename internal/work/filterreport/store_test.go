package filterreport_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/read/counters"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// reportProbes suffice to measure a rate of 1 % to within a third.
const reportProbes = 4000

func randomKey(n int) []byte {
	rnd := rand.NewPCG(uint64(n), 1)
	return fmt.Appendf(nil, "%016x", rnd.Uint64())
}

// decimalKey leaves gaps between the stored counters, the even ones.
func decimalKey(n int) []byte { return fmt.Appendf(nil, "%016d", 2*n) }

// denseKey leaves no room for a counter that is absent.
func denseKey(n int) []byte { return fmt.Appendf(nil, "%016d", n) }

// reportStore returns a store with one table of n keys on level 0.
func reportStore(t *testing.T, fsys vfs.FS, policy filter.Policy, n int, key func(int) []byte) *db.DB {
	d := storetest.MustOpen(t, &db.Options{
		FS: fsys, Filters: db.FilterOptions{Policy: policy}, Compaction: db.CompactionOptions{L0Trigger: 100},
		Memtables: db.MemtableOptions{Size: 64 << 20},
	})
	for i := range n {
		require.NoError(t, d.Put(key(i), fixture.Value(i)[:20], db.NoSync))
	}
	require.NoError(t, d.Flush())
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestFilterReportsDistinguishGoodFiltersFromBadOnes(t *testing.T) {
	race.SkipInShort(t)
	const n, many = 20000, 100000 // only keys that differ in several words collide in LevelDB's hash
	cases := []struct {
		name      string
		policy    filter.Policy
		n         int
		key       func(int) []byte
		verdict   report.FilterVerdict
		predicted float64
		most      float64 // of the measured rate
		bits      float64
	}{
		{"the default, on level 0", nil, n, randomKey, report.VerdictGood, 0.001264, 0.005, 15},
		{"the default, counters", nil, many, decimalKey, report.VerdictGood, 0.001264, 0.005, 15},
		{"cache lines, counters", filter.NewCacheLineBloomPolicy(10), many, decimalKey, report.VerdictGood, 0.0097, 0.02, 10},
		{"cache lines, counters without gaps", filter.NewCacheLineBloomPolicy(10), many, denseKey, report.VerdictGood, 0.0097, 0.02, 10},
		{"LevelDB's", filter.NewBloomPolicy(10), n, randomKey, report.VerdictGood, 0.00907, 0.02, 10},
		{"LevelDB's, counters", filter.NewBloomPolicy(10), many, decimalKey, report.VerdictCollisions, 0.0144, 0.2, 10},
		{"LevelDB's, counters, twice the bits", filter.NewBloomPolicy(20), many, decimalKey, report.VerdictCollisions, 0.000134, 0.2, 20},
		{"binary fuse, counters", filter.FusePolicy{}, many, decimalKey, report.VerdictGood, 1.0 / 256, 0.01, 8.9},
		{"one bit per key", filter.NewBloomPolicy(1), n, randomKey, report.VerdictSaturated, 0.632, 0.7, 1},
		{"no filter", filter.None, n, randomKey, report.VerdictOff, -1, 1, 0},
		{"a custom policy", fixture.Always, n, randomKey, report.VerdictSaturated, -1, 1, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := reportStore(t, vfs.NewMem(), c.policy, c.n, c.key)
			r := storetest.Filters(t, d, reportProbes)
			require.Len(t, r.Tables, 1)
			f := r.Tables[0]
			require.Equal(t, c.verdict, f.Verdict, f.Detail)
			require.NotEmpty(t, f.Verdict.Advice())
			require.InDelta(t, c.predicted, f.Predicted, 0.05*math.Abs(c.predicted))
			require.InDelta(t, c.bits, f.BitsPerKey, 0.2)
			rate, low, high := f.Probes.Rate()
			require.LessOrEqual(t, rate, c.most)
			require.True(t, low <= rate && rate <= high)
			require.EqualValues(t, reportProbes, f.Probes.Absent)
			require.Greater(t, f.Probes.Stored, uint64(reportProbes/4))
			require.LessOrEqual(t, f.Probes.Stored, uint64(reportProbes))
			require.Zero(t, f.Probes.Denied)
			require.Len(t, r.Levels, 1)
			require.Equal(t, f.Probes, r.Levels[0].Probes)
			require.InDelta(t, f.Predicted, r.Levels[0].Predicted, 1e-9)
			require.NoError(t, result.Err(json.Marshal(r)))
			require.Equal(t, r, storetest.Filters(t, d, reportProbes), "a second report is the same")
			require.Zero(t, d.Metrics().Total().Reads, "probes are not counted as lookups")
		})
	}
}

// These verdicts do not depend on probes.
func TestFilterReportsNameFiltersThatCannotBeQueried(t *testing.T) {
	cases := []struct {
		name             string
		written, queried filter.Policy
		harm             func(t *testing.T, fsys vfs.FS, table string)
		verdict          report.FilterVerdict
	}{
		{"no filter", filter.None, nil, nil, report.VerdictNoFilter},
		{"an unknown policy", fixture.Renamed{BloomPolicy: filter.NewBloomPolicy(10), As: "some.other"}, nil, nil, report.VerdictUnknown},
		{"a policy that loses keys", fixture.Never, fixture.Never, nil, report.VerdictDenies},
		{"a damaged filter", filter.NewBloomPolicy(10), nil, flipIn("filter"), report.VerdictDamaged},
		{"a damaged filter of two", nil, nil, flipIn("filter"), report.VerdictDamaged},
		{"a damaged block", nil, nil, flipIn("data"), report.VerdictDamaged},
		{"a missing table", nil, nil, func(t *testing.T, fsys vfs.FS, table string) { require.NoError(t, fsys.Remove(table)) }, report.VerdictDamaged},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			d := reportStore(t, fsys, c.written, 2000, randomKey)
			infos := result.Of(d.Tables())(t)
			require.NoError(t, d.Close())
			d, err := db.Open("db", &db.Options{FS: fsys, Filters: db.FilterOptions{Policy: c.queried}, ReadOnly: true})
			require.NoError(t, err)
			defer d.Close()
			if c.harm != nil {
				c.harm(t, fsys, filepath.Join("db", infos[0].Name))
			}
			f := storetest.Filters(t, d, 100000).Tables[0]
			require.Equal(t, c.verdict, f.Verdict, f.Detail)
		})
	}
}

// flipIn returns a function that flips a bit of a table of 2000 keys, in its first block or its filter.
func flipIn(part string) func(t *testing.T, fsys vfs.FS, table string) {
	return func(t *testing.T, fsys vfs.FS, table string) {
		data := fixture.ReadFile(t, fsys, table)
		at := 100
		if part == "filter" {
			p := filter.NewCacheLineBloomPolicy(10)
			if !bytes.Contains(data, []byte("filter."+p.Name())) {
				p = filter.NewBloomPolicy(10)
			}
			at, _ = fixture.FilterBlock(t, data, p)
		}
		data[at] ^= 1
		require.NoError(t, fsys.Remove(table))
		fixture.WriteFile(t, fsys, table, data)
	}
}

func TestAFilterThatNoLookupReachesIsNeverQueried(t *testing.T) {
	d := reportStore(t, vfs.NewMem(), nil, 1000, randomKey)
	require.NoError(t, d.Put([]byte("in memory"), nil, db.NoSync))
	for range 10000 { // fewer lookups give no verdict
		require.NoError(t, result.Err(d.Get([]byte("in memory"))))
	}
	require.Equal(t, report.VerdictNeverQueried, storetest.Filters(t, d, 100).Tables[0].Verdict)
	require.NoError(t, result.Err(d.Get(randomKey(1))))
	require.Equal(t, report.VerdictGood, storetest.Filters(t, d, 100).Tables[0].Verdict)
}

// Repeated lookups of one false positive say nothing about the filter.
func TestARepeatedKeyDoesNotMakeABadFilter(t *testing.T) {
	d := reportStore(t, vfs.NewMem(), nil, 20000, decimalKey)
	unlucky := []byte(nil)
	for i := 0; unlucky == nil; i++ {
		key := fmt.Appendf(nil, "%016d", 2*i+1)
		if x, err := d.Explain(key); err == nil && x.ReadsWasted > 0 {
			unlucky = key
		}
	}
	for range 100 * counters.SampledOneIn {
		require.ErrorIs(t, result.Err(d.Get(unlucky)), db.ErrNotFound)
	}
	f := storetest.Filters(t, d, reportProbes).Tables[0]
	require.Equal(t, report.VerdictGood, f.Verdict, f.Detail)
	require.InDelta(t, 100*counters.SampledOneIn, f.Lookups.FalsePositives, 5*counters.SampledOneIn,
		"each lookup wasted a read, which is counted")
	require.Equal(t, report.VerdictGood, storetest.Filters(t, d, 0).Tables[0].Verdict)
}

func TestSampledLookupsAddUpToTheCounts(t *testing.T) {
	const rounds, n = 30, 8000 // half of the keys are stored
	ways := []struct {
		name   string
		lookUp func(t *testing.T, d *db.DB)
	}{
		{"one by one", func(t *testing.T, d *db.DB) {
			for i := range n {
				_, err := d.Get(fixture.Key(i))
				require.True(t, err == nil == (i%2 == 0))
			}
		}},
		{"in groups", func(t *testing.T, d *db.DB) {
			for i := 0; i < n; i += 50 { // groups of 32 and of 18
				var keys [][]byte
				for j := range 50 {
					keys = append(keys, fixture.Key(i+j))
				}
				values := result.Of(d.MultiGet(keys))(t)
				for j, v := range values {
					require.True(t, v != nil == (j%2 == 0))
				}
			}
		}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			d := storetest.FilledLevels(t, storetest.Options(vfs.NewMem()), n/2)
			for range rounds {
				way.lookUp(t, d)
			}
			requireSamplesOfLookups(t, d)
		})
	}
}

func requireSamplesOfLookups(t *testing.T, d *db.DB) {
	r := storetest.Filters(t, d, 0)
	queried := map[int]report.FilterLookups{}
	for _, f := range r.Tables {
		l := queried[f.Level]
		l.Negatives += f.Lookups.Negatives
		l.TruePositives += f.Lookups.TruePositives
		queried[f.Level] = l
		require.GreaterOrEqual(t, float64(f.Lookups.BytesSaved), float64(f.Lookups.Negatives)*100, "blocks of 512 bytes, compressed")
	}
	for _, l := range r.Levels {
		// A tenth, and some samples for each of the stripes and paths that count separately.
		within := 0.1*float64(l.Lookups.Asked()) + 20*counters.SampledOneIn
		require.InDelta(t, l.Lookups.Negatives, queried[l.Level].Negatives, within, "level %d", l.Level)
		require.InDelta(t, l.Lookups.TruePositives, queried[l.Level].TruePositives, within, "level %d", l.Level)
	}
}

// There is a report whatever the bytes of a table are.
//
// False alarms: 99 in 100 of these tables are reported as damaged (1,789 of 1,800). That none of 300
// is happens once in 10^600 runs.
func TestFilterReportsOfDamagedTablesDoNotPanic(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	fsys := vfs.NewMem()
	d := reportStore(t, fsys, nil, 300, randomKey)
	infos := result.Of(d.Tables())(t)
	require.NoError(t, d.Close())
	table := filepath.Join("db", infos[0].Name)
	sound := fixture.ReadFile(t, fsys, table)
	damaged := 0
	for range 300 {
		data := append([]byte(nil), sound...)
		for range 1 + rnd.IntN(3) {
			data[rnd.IntN(len(data))] ^= byte(1 + rnd.IntN(255))
		}
		require.NoError(t, fsys.Remove(table))
		fixture.WriteFile(t, fsys, table, data)
		d := storetest.MustOpen(t, &db.Options{FS: fsys, ReadOnly: true})
		if storetest.Filters(t, d, 100000).Tables[0].Verdict == report.VerdictDamaged {
			damaged++
		}
		require.NoError(t, d.Close())
	}
	require.Positive(t, damaged)
}

func TestFilterReportsNeedAnOpenStore(t *testing.T) {
	d := storetest.MustOpen(t, storetest.Options(vfs.NewMem()))
	r := result.Of(d.Filters(t.Context(), 10))(t)
	require.Empty(t, r.Tables)
	require.NoError(t, d.Close())
	require.ErrorIs(t, result.Err(d.Filters(t.Context(), 10)), db.ErrClosed)
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }
