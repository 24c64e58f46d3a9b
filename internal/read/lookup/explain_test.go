package lookup_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func twoTables(t *testing.T, change func(o *db.Options)) (*db.DB, *fixture.TableWatch) {
	w := fixture.WatchTables(t)
	o := storetest.WatchedOptions(w, nil)
	o.Cache.Size, o.Memtables.Size, o.Tables.Size = 8<<20, 1<<20, 1<<20
	change(o)
	d := storetest.MustOpen(t, o)
	for i := 0; i < 4000; i += 2 {
		require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	for i := range 6 {
		require.NoError(t, d.Put(fixture.Key(i*700+1), fixture.Value(i), db.NoSync))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	return storetest.Open(t, o), w
}

func TestAnExplanationCountsTheBytesRead(t *testing.T) {
	for name, change := range map[string]func(o *db.Options){
		"cached blocks":     func(o *db.Options) {},
		"no cache":          func(o *db.Options) { o.Cache.Size = -1 },
		"compressed":        func(o *db.Options) { o.Tables.Compression = db.SnappyCompression },
		"LevelDB's filters": func(o *db.Options) { o.Filters.Policy = filter.NewBloomPolicy(10) },
		"no filters":        func(o *db.Options) { o.Filters.Policy = filter.None },
	} {
		t.Run(name, func(t *testing.T) {
			d, w := twoTables(t, change)
			opened := uint64(0)
			for i := range 300 {
				var x *db.Explanation
				parts := w.BytesDuring(func() {
					x = storetest.Explain(t, d, fixture.Key(i*13))
				})
				var all, data uint64
				for _, n := range parts {
					all += n
				}
				for _, s := range x.Steps {
					if s.BlockFromDisk {
						data += s.BlockBytes
					}
				}
				require.Equal(t, all, x.BytesRead+x.OpeningBytes, "key %d", i)
				require.Equal(t, parts["data"], data, "key %d", i)
				opened += x.OpeningReads
				requireStepsAddUp(t, x)
			}
			require.Equal(t, d.Metrics().Tables.OpeningReads, opened, "each table is opened once, by the lookup that needs it first")
		})
	}
}

// requireStepsAddUp checks the invariants of every explanation.
func requireStepsAddUp(t *testing.T, x *db.Explanation) {
	t.Helper()
	var sum db.Explanation
	var took time.Duration
	for _, s := range x.Steps {
		sum.BytesRead += s.BytesRead
		sum.OpeningReads += s.OpeningReads
		sum.OpeningBytes += s.OpeningBytes
		took += s.Duration
		require.LessOrEqual(t, s.OpenTime+s.FilterTime+s.IndexTime+s.SearchTime, s.Duration)
		require.Equal(t, s.IndexRead, s.IndexBytes > 0)
		require.Equal(t, s.Opened, s.OpeningReads > 0)
		require.Equal(t, s.BlockFromCache || s.BlockFromDisk, s.BlockBytes > 0)
		if s.Run != "table" {
			require.Nil(t, s.Smallest)
			continue
		}
		require.Equal(t, s.Filter != "absent", s.IndexSearched, "a whole-table filter is queried before the index")
		if s.BlockFromDisk {
			require.Equal(t, s.IndexBytes+s.BlockBytes, s.BytesRead)
		}
	}
	require.Equal(t, sum.BytesRead, x.BytesRead)
	require.Equal(t, sum.OpeningReads, x.OpeningReads)
	require.Equal(t, sum.OpeningBytes, x.OpeningBytes)
	require.LessOrEqual(t, took, x.Duration)
}

func TestASecondExplanationReadsNothing(t *testing.T) {
	d, _ := twoTables(t, func(o *db.Options) {})
	key := fixture.Key(2000)
	first := storetest.Explain(t, d, key)
	again := storetest.Explain(t, d, key)
	require.Len(t, first.Steps, 3, "a memtable and two tables")
	was, is := first.Steps[2], again.Steps[2]
	require.True(t, was.Opened && was.IndexSearched && was.BlockFromDisk && !was.BlockFromCache)
	require.True(t, !is.Opened && is.IndexSearched && is.BlockFromCache && !is.BlockFromDisk)
	require.Equal(t, was.BlockBytes, is.BlockBytes, "the same block")
	require.Zero(t, again.BytesRead+again.OpeningBytes)
	require.Zero(t, again.DiskReads)
	require.Equal(t, 1, again.ReadsSaved, "by the filter of the upper table")
}

func TestAnExplanationOwnsItsKeyRanges(t *testing.T) {
	d, _ := twoTables(t, func(o *db.Options) {})
	key := fixture.Key(2000)
	x := storetest.Explain(t, d, key)
	for i := range x.Steps {
		if s := &x.Steps[i]; s.Run == "table" {
			require.LessOrEqual(t, bytes.Compare(s.Smallest, key), 0)
			require.GreaterOrEqual(t, bytes.Compare(s.Largest, key), 0)
			clear(s.Smallest)
			clear(s.Largest)
		}
	}
	storetest.RequireValue(t, d, key, fixture.Value(2000))
	again := storetest.Explain(t, d, key)
	require.Equal(t, fixture.Key(0), again.Steps[2].Smallest)
	require.Equal(t, fixture.Key(3998), again.Steps[2].Largest)
}

// The bug: Explain named memtables by a field that the writer sets concurrently when a memtable is
// full, and that is 0 if nothing was ever written.
func TestAnExplanationDistinguishesMemtables(t *testing.T) {
	var held atomic.Bool
	written := make(chan struct{})
	d := storetest.Open(t, storetest.Options(wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if held.Load() && op.Kind == wrap.OpWrite && strings.Contains(op.Name, "MANIFEST") {
			<-written
		}
		return nil
	})))
	held.Store(true)
	require.NoError(t, d.Put(fixture.Key(0), nil, db.NoSync))
	// The value does not fit, so the memtable is flushed.
	require.NoError(t, d.Put(fixture.Key(1), make([]byte, d.Options().Memtables.Size), db.NoSync))
	x, err := d.Explain(fixture.Key(2))
	close(written)
	require.NoError(t, err)
	require.Len(t, x.Steps, 2)
	require.Equal(t, "memtable", x.Steps[0].Run)
	require.Equal(t, "immutable memtable", x.Steps[1].Run)

	var group sync.WaitGroup
	defer group.Wait()
	for range 100 { // for the race detector
		group.Go(func() {
			if _, err := d.Explain(fixture.Key(3)); err != nil {
				t.Error(err)
			}
		})
		require.NoError(t, d.Put(fixture.Key(1), nil, db.NoSync))
		require.NoError(t, d.Flush())
	}
}

// A memtable after one that no lookup has come to has no filter until some lookups have made it.
func TestTheFilterOfAMemtableWaitsForLookups(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Memtables.Size = 1 << 20
	d := storetest.Open(t, o)
	asked := func(key int) string { return storetest.Explain(t, d, fixture.Key(key)).Steps[0].Filter }
	put := func(from, to int) {
		for i := from; i < to; i += 2 {
			require.NoError(t, d.Put(fixture.Key(i), fixture.Value(i), db.NoSync))
		}
	}
	put(0, 200)
	require.NoError(t, d.Flush())
	put(200, 1200)
	require.Equal(t, "none", asked(201), "nobody has looked at the memtable before")
	for n := 0; asked(201) == "none"; n++ {
		require.Less(t, n, 10)
	}
	require.Equal(t, "absent", asked(201))
	put(1200, 1400)
	for i := 0; i < 1400; i += 2 {
		value := result.Of(d.Get(fixture.Key(i)))(t)
		require.Equal(t, fixture.Value(i), value)
	}
	require.NoError(t, d.Flush())
	put(0, 200)
	require.Equal(t, "absent", asked(201), "somebody has looked at the memtable before")
}

func TestAnExplanationPrintsAsReadableText(t *testing.T) {
	d, _ := twoTables(t, func(o *db.Options) {})
	// Times vary, and sizes depend on the tables' encoding.
	times := regexp.MustCompile(`[0-9.]+(ns|µs|ms|s)\b`)
	text := func(key []byte) string {
		x := storetest.Explain(t, d, key)
		return times.ReplaceAllString(x.String(), "T")
	}
	tables := result.Of(d.Tables())(t)
	require.Len(t, tables, 2)
	upper, lower := tables[0], tables[1]
	header := func(verdict, outcome string) string {
		return fmt.Sprintf("level %d table %06d     filter: %s by sievedb.CacheLineBloom %s, T\n"+
			"                         %d bytes, keys \"key000000\" to \"key003998\"\n", lower.Level, lower.FileNum, verdict, outcome, lower.Bytes)
	}
	above := "memtable                 filter: none    not here, T\n" +
		fmt.Sprintf("level 0 table %06d     filter: absent by sievedb.CacheLineBloom not here, T\n"+
			"                         %d bytes, keys \"key000001\" to \"key003501\"\n", upper.FileNum, upper.Bytes) +
		"                         filter T\n"
	x := storetest.Explain(t, d, fixture.Key(2000))
	n := x.Steps[2].BlockBytes

	require.Equal(t, above+header("maybe", "found")+
		fmt.Sprintf("                         filter T, index from memory T, data block from cache (%d bytes in the file) T\n", n)+
		"found: 0 disk reads (0 bytes), 1 saved by filters, 0 wasted; T\n", text(fixture.Key(2000)))
	require.Equal(t, above+header("absent", "not here")+
		"                         filter T\n"+
		"not found: 0 disk reads (0 bytes), 2 saved by filters, 0 wasted; T\n", text(fixture.Key(2003)))
	require.NoError(t, d.Delete(fixture.Key(2000), db.NoSync))
	require.Equal(t, "memtable                 filter: maybe   found, T\n"+
		"deleted: 0 disk reads (0 bytes), 0 saved by filters, 0 wasted; T\n", text(fixture.Key(2000)))
}
