package lookup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// Lookups in a level 0 that was flushed in order stop at the first table with the key. After the
// store was reopened, they do so again once the tables are open.
func TestLevelZeroIsKnownToBeInOrderOnceItsTablesAreOpen(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Compaction.L0Trigger = 100
	d := storetest.MustOpen(t, o)
	for round := range 5 {
		require.NoError(t, d.Put([]byte("a"), fixture.Value(round), nil))
		require.NoError(t, d.Put([]byte("b"), fixture.Value(round), nil))
		require.NoError(t, d.Flush())
	}
	steps := func() int {
		x := storetest.Explain(t, d, []byte("a"))
		require.True(t, x.Found)
		return len(x.Steps)
	}
	require.Equal(t, 1+1, steps(), "a flush is known to be newer")
	require.NoError(t, d.Close())
	d = storetest.Open(t, o)
	require.Equal(t, 1+5, steps(), "the memtable and all tables, whose order is unknown")
	require.Equal(t, 1+1, steps())
	storetest.RequireValue(t, d, []byte("a"), fixture.Value(4))
}

// The bug: opening a table reads its properties only if they are close to its end. With a large index after them the
// order was not learned, and all lookups searched all tables of level 0 until it changed.
func TestTheOrderOfTablesWithLargeIndexesIsLearned(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Compaction.L0Trigger, o.Memtables.Size = 100, 4<<20
	key := func(i int) []byte { return fmt.Appendf(nil, "%0500d", i) }
	d := storetest.MustOpen(t, o)
	for round := range 3 {
		for i := range 1000 {
			require.NoError(t, d.Put(key(i), fixture.Value(round), nil))
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	steps := func(d *db.DB) int {
		x := storetest.Explain(t, d, key(5))
		require.True(t, x.Found)
		return len(x.Steps)
	}
	for name, lookup := range map[string]func(d *db.DB){
		"Get": func(d *db.DB) { storetest.RequireValue(t, d, key(5), fixture.Value(2)) },
		"MultiGet": func(d *db.DB) {
			values := result.Of(d.MultiGet([][]byte{key(5)}))(t)
			require.Equal(t, [][]byte{fixture.Value(2)}, values)
		},
		"Explain": func(d *db.DB) { require.Equal(t, 1+3, steps(d), "the memtable and all tables") },
	} {
		t.Run(name, func(t *testing.T) {
			d := storetest.MustOpen(t, o)
			lookup(d)
			require.Equal(t, 1+1, steps(d))
			require.NoError(t, d.Close())
		})
	}
}

// The bug: a compaction of tables in no order set sequence numbers to 0. If a crash left some of
// its inputs, another program's repair brought them back with greater numbers.
func TestCompactedTablesInNoOrderKeepTheirSequenceNumbers(t *testing.T) {
	inputs := map[uint64][]fixture.Entry{
		5: {fixture.Put("a", 7, "new"), fixture.Put("b", 2, "b")},
		9: {fixture.Put("a", 3, "old"), fixture.Put("c", 4, "c")},
	}
	files := fixture.Level0(t, inputs)
	fsys := files.FS(t)
	d := storetest.MustOpen(t, storetest.Options(fsys))
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	require.NoError(t, d.Close())

	after := fixture.ReadDir(t, fsys, "db")
	tables := after.Live(t)
	brought := fixture.Dir{"000009.ldb": files["000009.ldb"]}
	levels := map[uint64]int{9: 0}
	for name := range tables {
		_, num, ok := base.ParseFileName(name)
		require.True(t, ok)
		brought[name], levels[num] = after[name], 0
	}
	brought.AddManifest(t, 500, brought.Edit(t, 400, 7, levels))
	r := storetest.Open(t, storetest.Options(brought.FS(t)))
	storetest.RequireAllAgree(t, r, fixture.Contents{"a": "new", "b": "b", "c": "c"}, "d")
}

// The bug: if two tables had the same internal key with different values, lookups returned the
// value of the first table.
func TestLookupsOfTwinsWithUnequalValuesAreCorruption(t *testing.T) {
	d := storetest.Open(t, storetest.Options(fixture.UnequalTwins(t).FS(t)))
	require.ErrorIs(t, result.Err(d.Get([]byte("b"))), db.ErrCorruption)
	require.ErrorIs(t, result.Err(d.MultiGet([][]byte{[]byte("a"), []byte("b")})), db.ErrCorruption)
	require.ErrorIs(t, result.Err(d.Explain([]byte("b"))), db.ErrCorruption)
	storetest.RequireValue(t, d, []byte("c"), []byte("3"))
}

// Compactions set the sequence number of several versions of a key to 0, one after the other. An
// input that another program's repair brings back has an older version.
func TestTheLaterTableCountsForTwinsWithoutSequenceNumbers(t *testing.T) {
	files := fixture.Level0(t, map[uint64][]fixture.Entry{
		3: {fixture.Put("a", 0, "old"), fixture.Put("b", 0, "old"), fixture.Put("c", 0, "c"), fixture.Put("d", 0, "old")},
		6: {fixture.Put("a", 0, "new"), fixture.Put("d", 7, "new")},
		4: {fixture.Put("a", 0, "older than 6"), fixture.Put("b", 0, "new")},
	})
	want := fixture.Contents{"a": "new", "b": "new", "c": "c", "d": "new"}
	d := storetest.Open(t, storetest.Options(files.FS(t)))
	storetest.RequireAllAgree(t, d, want, "e")
	storetest.RequireNoFaults(t, d)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	storetest.RequireAllAgree(t, d, want, "e")
}

// The bug: Get stopped at the first table of level 0 with the key, and returned an old version if
// another program's repair had put the tables of all levels there.
func TestReadersOfALevelZeroInNoOrderAgree(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 14))
		tables, want := map[uint64][]fixture.Entry{}, fixture.Contents{}
		newest := map[string]uint64{}
		for num := uint64(3); num < 3+2+rnd.Uint64N(8); num++ {
			for key := range 30 {
				if rnd.IntN(3) > 0 {
					continue
				}
				name := fmt.Sprintf("k%02d", key)
				seq := 1 + 100*rnd.Uint64N(20) + num // all different
				e := fixture.Put(name, seq, fmt.Sprint(seq))
				if rnd.IntN(4) == 0 {
					e = fixture.Del(name, seq)
				}
				tables[num] = append(tables[num], e)
				if seq > newest[name] {
					newest[name] = seq
					delete(want, name)
					if e.Kind == base.KindSet {
						want[name] = e.Value
					}
				}
			}
		}
		absent := []string{"", "k", "k99"}
		for name := range newest {
			if _, ok := want[name]; !ok {
				absent = append(absent, name)
			}
		}
		files := fixture.Level0(t, tables)
		o := storetest.Options(files.FS(t))
		o.Compaction.L0Trigger = 100
		if rnd.IntN(2) == 0 {
			o.Cache.Size = -1
		}
		o.ReadOnly = rnd.IntN(3) == 0
		d := storetest.MustOpen(t, o)
		storetest.RequireAllAgree(t, d, want, absent...)
		if !o.ReadOnly {
			require.NoError(t, d.Put([]byte("k99"), []byte("written"), nil))
			require.NoError(t, d.Flush())
			want["k99"] = "written"
			storetest.RequireAllAgree(t, d, want, absent[:2]...)
			require.NoError(t, d.Compact(context.Background(), nil, nil))
			storetest.RequireAllAgree(t, d, want, absent[:2]...)
		}
		require.NoError(t, d.Close())
	}
}
