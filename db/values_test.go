package db_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// separateOptions separate values of 1,000 bytes and more, in a small tree.
func separateOptions(fs vfs.FS) *db.Options {
	o := storetest.Options(fs)
	o.Memtables.Size, o.Tables.Size, o.Compaction.MaxLevelBase = 64<<10, 64<<10, 256<<10
	o.Tables.SeparateValues = 1000
	return o
}

// valueOf returns a value of number n, of which every fourth is too small to be separated.
func valueOf(n int) []byte {
	if n%4 == 0 {
		return fmt.Appendf(nil, "small %d", n)
	}
	return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 125+n%700)
}

// separatedStore returns a store with separated values after overwrites and deletions, and its content.
func separatedStore(t *testing.T, fs vfs.FS) (*db.DB, fixture.Contents) {
	t.Helper()
	d := storetest.Open(t, separateOptions(fs))
	want := fixture.Contents{}
	for n := range 2000 {
		if i := n * 7919 % 300; n%13 == 0 {
			require.NoError(t, d.Delete(fixture.Key(i), nil))
			delete(want, string(fixture.Key(i)))
		} else {
			require.NoError(t, d.Put(fixture.Key(i), valueOf(n), nil))
			want[string(fixture.Key(i))] = string(valueOf(n))
		}
	}
	require.NoError(t, d.Flush())
	storetest.Settle(t, d)
	require.NotZero(t, d.Metrics().Tables.ValueTables)
	return d, want
}

// A scan adds the values to a block cache with room, as it does if they are with their keys.
func TestScansOfSeparatedValuesFillACacheWithRoom(t *testing.T) {
	fs := vfs.NewMem()
	d, want := separatedStore(t, fs)
	require.NoError(t, d.Close())
	o, apart := separateOptions(fs), 0
	o.Cache.Size = 16 << 20
	d = storetest.Open(t, o)
	for _, value := range want {
		if len(value) >= 1000 {
			apart++
		}
	}
	it, err := d.NewIterator(&db.IterOptions{KeysOnly: true})
	require.NoError(t, err)
	defer it.Close()
	for it.Next() { // the blocks of the keys
	}
	before := d.Metrics().Cache.Blocks
	all, err := d.NewIterator(nil)
	require.NoError(t, err)
	defer all.Close()
	shown := 0
	for ; all.Next(); shown++ {
		require.Equal(t, want[string(all.Key())], string(all.Value()))
	}
	require.Equal(t, len(want), shown)
	require.Equal(t, before+int64(apart), d.Metrics().Cache.Blocks)
}

// What copies, follows or moves a database does so with its value tables.
func TestSeparatedValuesGoWhereTheDatabaseGoes(t *testing.T) {
	fs := vfs.NewMem()
	d, want := separatedStore(t, fs)
	follower := storetest.MustFollow(t, separateOptions(fs))
	storetest.RequireAllAgree(t, follower, want)
	storetest.CheckpointTo(t, d, "copy")

	// What the follower and the checkpoint have stays while values are collected.
	early := maps.Clone(want)
	for n := range 3000 {
		i := n * 7919 % 300
		require.NoError(t, d.Put(fixture.Key(i), valueOf(5000+n), nil))
		want[string(fixture.Key(i))] = string(valueOf(5000 + n))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.Settle(t, d)
	storetest.RequireAllAgree(t, follower, early)
	require.NoError(t, follower.Refresh(t.Context()))
	storetest.RequireAllAgree(t, follower, want)
	o := separateOptions(fs)
	for _, from := range []int{0, 1000} { // with another option than it was written with
		o.Tables.SeparateValues = from
		c, err := db.Open("copy", o)
		require.NoError(t, err)
		storetest.RequireAllAgree(t, c, early)
		storetest.RequireNoFaults(t, c)
		require.NoError(t, c.Close())
	}
	usage, err := d.DiskUsage()
	require.NoError(t, err)
	m := d.Metrics()
	levels := uint64(0)
	for _, l := range m.Levels {
		levels += l.Bytes
	}
	require.Equal(t, m.Tables.ValueBytes+levels, usage.Tables, "%+v", usage)
}

// A value that cannot be read ends a loop, and is an error of the key.
func TestAValueThatCannotBeReadEndsTheLoop(t *testing.T) {
	fs := vfs.NewMem()
	o := separateOptions(fs)
	o.Cache.Size = -1
	d := storetest.MustOpen(t, o)
	for i := range 20 {
		require.NoError(t, d.Put(fixture.Key(i), valueOf(4*i+1), nil))
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.Close())
	names, err := fs.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if filepath.Ext(name) == ".values" {
			data, err := damage.ReadFile(fs, filepath.Join("db", name))
			require.NoError(t, err)
			data[len(data)/8] ^= 1
			require.NoError(t, damage.WriteFile(fs, filepath.Join("db", name), data))
		}
	}
	d = storetest.Open(t, o)
	for _, all := range []func(*db.IterOptions) (iter.Seq2[[]byte, []byte], func() error){d.All, d.Backward} {
		n := 0
		entries, failed := all(nil)
		for key, value := range entries {
			require.NotEmpty(t, value, "%s", key)
			n++
		}
		require.ErrorIs(t, failed(), db.ErrCorruption)
		require.Less(t, n, 20)
	}
	lost := 0
	for i := range 20 {
		if _, err := d.Get(fixture.Key(i)); err != nil {
			require.ErrorIs(t, err, db.ErrCorruption)
			require.ErrorContains(t, err, ".values")
			lost++
		}
		has, err := d.Has(fixture.Key(i))
		require.NoError(t, err)
		require.True(t, has)
	}
	require.Equal(t, 1, lost)
	report, err := d.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Faults, 1, "%v", report)
}

// A merge of a few kilobytes may read megabytes of values for the filter: they count, so that Close and the limit of a
// rate do not wait for all of them. Those that a snapshot sees are not read.
func TestValuesThatAreReadForTheFilterCountAsRead(t *testing.T) {
	o := separateOptions(vfs.NewMem())
	o.Tables.SeparateValues = 100
	d := storetest.Open(t, o)
	value := bytes.Repeat([]byte("0123456789"), 1000)
	for i := range 100 {
		require.NoError(t, d.Put(fixture.Key(i), value, nil))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	asked := 0
	o.Compaction.Filter = func(_, value []byte) ([]byte, bool) {
		asked++
		return value, true
	}
	require.NoError(t, d.SetOptions(o))
	read := func() uint64 {
		before := d.Metrics().Compactions.BytesRead
		require.NoError(t, d.Compact(t.Context(), nil, nil))
		return d.Metrics().Compactions.BytesRead - before
	}
	snap := d.NewSnapshot()
	require.Less(t, read(), uint64(len(value)))
	require.Zero(t, asked)
	require.NoError(t, snap.Close())
	require.Greater(t, read(), uint64(100*len(value)))
	require.Equal(t, 100, asked)
}

func TestSeparatedValuesAreReadAndCollected(t *testing.T) {
	fs := vfs.NewMem()
	d := storetest.MustOpen(t, separateOptions(fs))
	rnd := rand.New(rand.NewPCG(5, 5))
	const keys = 300
	want, n := fixture.Contents{}, 0
	put := func(i int) {
		n++
		require.NoError(t, d.Put(fixture.Key(i), valueOf(n), nil))
		want[string(fixture.Key(i))] = string(valueOf(n))
	}
	for i := range keys {
		put(i)
	}
	snapshot := d.NewSnapshot()
	before := storetest.Contents(t, snapshot)
	for range 12 * keys {
		if i := rnd.IntN(keys); rnd.IntN(10) == 0 {
			require.NoError(t, d.Delete(fixture.Key(i), nil))
			delete(want, string(fixture.Key(i)))
		} else {
			put(i)
		}
	}
	require.NoError(t, d.Flush())
	storetest.Settle(t, d)
	storetest.RequireAllAgree(t, d, want)
	require.Equal(t, before, storetest.Contents(t, snapshot))
	require.NoError(t, snapshot.Close())
	m := d.Metrics().Tables
	require.NotZero(t, m.ValueTables)
	t.Logf("%+v", m)
	require.LessOrEqual(t, m.ValueGarbage, m.ValueBytes*2/5)
	storetest.RequireNoFaults(t, d)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	storetest.Settle(t, d)
	m = d.Metrics().Tables
	t.Logf("%+v", m)
	require.LessOrEqual(t, m.ValueGarbage, m.ValueBytes/5+32<<10, "which is an eighth of the base level")
	storetest.RequireAllAgree(t, d, want)
	require.NoError(t, d.Close())

	o := separateOptions(fs)
	o.Tables.SeparateValues = 0
	d = storetest.Open(t, o)
	storetest.RequireAllAgree(t, d, want)
	require.NotZero(t, d.Metrics().Tables.ValueTables)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	require.Zero(t, d.Metrics().Tables.ValueTables, "Compact puts all values back to their keys")
	storetest.RequireAllAgree(t, d, want)
	storetest.RequireNoFaults(t, d)
}

// A table of references stands for far more bytes than it has. One merge puts only so many of them back to their keys,
// but Compact all.
func TestCompactPutsMoreValuesBackThanOneMergeDoes(t *testing.T) {
	fs := vfs.NewMem()
	o := separateOptions(fs)
	o.Memtables.Size, o.Tables.Size = 8<<20, 8<<20
	d := storetest.Open(t, o)
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 2<<20) }
	const n = 140
	for i := range n {
		require.NoError(t, d.Put(fixture.Key(i), value(i), nil))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	before := d.Metrics().Tables
	require.NotZero(t, before.ValueTables)
	o.Tables.SeparateValues = 0
	require.NoError(t, d.SetOptions(o))
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	tables, err := d.Tables()
	require.NoError(t, err)
	require.Greater(t, len(tables), 1)
	require.Zero(t, d.Metrics().Tables.ValueTables)
	for i := range n {
		got, err := d.Get(fixture.Key(i))
		require.NoError(t, err)
		require.True(t, bytes.Equal(value(i), got), i)
	}
	storetest.RequireNoFaults(t, d)
}

// Collections that fail leave the other compactions alone: level 0 does not fill, and writes go on.
func TestCollectionsThatFailHoldNothingUp(t *testing.T) {
	var failing atomic.Bool
	var failed atomic.Int64
	fs := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if failing.Load() && op.Kind == wrap.OpOpen && strings.HasSuffix(op.Name, ".values") { // only collections read them
			failed.Add(1)
			return &wrap.Fault{Err: errors.New("the disk has a fault")}
		}
		return nil
	})
	o := separateOptions(fs)
	o.Compaction.MaxConcurrent = 1
	d := storetest.Open(t, o)
	want, rnd := fixture.Contents{}, rand.New(rand.NewPCG(3, 3))
	failing.Store(true)
	for n := range 6000 {
		i := rnd.IntN(300)
		require.NoError(t, d.Put(fixture.Key(i), valueOf(n), nil))
		want[string(fixture.Key(i))] = string(valueOf(n))
	}
	require.NoError(t, d.Flush())
	require.NotZero(t, failed.Load())
	require.Less(t, failed.Load(), int64(10), "the time between them grows")
	failing.Store(false)
	storetest.RequireAllAgree(t, d, want)
	m := d.Metrics()
	require.Less(t, m.Levels[0].Tables, 12)
	require.NoError(t, m.BackgroundError)
}

// A damaged value table is set aside alone: the others are collected.
func TestOnlyTheDamagedValueTableIsSetAside(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, data []byte) []byte{
		"damaged values": func(_ *testing.T, data []byte) []byte {
			for at := 20; at < len(data)-2000; at += 100 {
				data[at] ^= 1
			}
			return data
		},
		"an entry that is no value": withTombstone,
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			d := storetest.MustOpen(t, separateOptions(fs))
			for i := range 300 {
				require.NoError(t, d.Put(fixture.Key(i), valueOf(4*i+1), nil))
			}
			require.NoError(t, d.Flush())
			values, err := d.ValueTables()
			require.NoError(t, err)
			require.Greater(t, len(values), 1)
			require.NoError(t, d.Close())
			path := filepath.Join("db", values[0].Name)
			data, err := damage.ReadFile(fs, path)
			require.NoError(t, err)
			require.NoError(t, damage.WriteFile(fs, path, harm(t, data)))
			requireOthersCollected(t, fs, values)
		})
	}
}

// requireOthersCollected overwrites most values, and waits until all value tables but the first are collected.
func requireOthersCollected(t *testing.T, fs vfs.FS, values []db.ValueTableInfo) {
	d := storetest.Open(t, separateOptions(fs))
	for n := range 3000 {
		if i := n * 7919 % 300; i%3 > 0 {
			require.NoError(t, d.Put(fixture.Key(i), valueOf(n), nil))
		}
	}
	require.NoError(t, d.Flush())
	require.Eventually(t, func() bool {
		after, err := d.ValueTables()
		require.NoError(t, err)
		require.Equal(t, values[0].Name, after[0].Name, "it stays as it is")
		return after[1].FileNum > values[len(values)-1].FileNum
	}, time.Minute, time.Millisecond, "the others are collected")
}

// withTombstone returns a value table as long as data, with its entries but the second, which is a tombstone with the
// key and the number of the first.
func withTombstone(t *testing.T, data []byte) []byte {
	fs := vfs.NewMem()
	require.NoError(t, damage.WriteFile(fs, "values", data))
	f, err := fs.Open("values")
	require.NoError(t, err)
	r, err := sstable.Open(f, sstable.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	it, err := r.NewIter(sstable.IterOptions{})
	require.NoError(t, err)
	defer it.Close()
	ids, err := r.IDs()
	require.NoError(t, err)
	for filling := []byte{}; len(filling) < 200; filling = append(filling, byte(len(filling)*len(filling)>>3)) {
		var out bytes.Buffer
		w := sstable.NewWriter(&out, sstable.WriterOptions{Values: true, IDs: ids, Compression: sstable.Snappy})
		for ok := it.First(); ok; ok = it.Next() {
			key, value := it.Key(), it.Value()
			if w.Entries() == 1 {
				seq, _ := base.SplitTrailer(base.Trailer(w.Largest()))
				key, value = base.AppendInternalKey(nil, base.UserKey(w.Largest()), seq, base.KindDelete), slices.Concat(value, filling)
			}
			require.NoError(t, w.Add(key, value))
		}
		require.NoError(t, it.Err())
		_, err = w.Finish()
		require.NoError(t, err)
		if out.Len() == len(data) {
			return out.Bytes()
		}
	}
	require.Fail(t, "no table has that length")
	return nil
}

// A damaged block of a level's table, which says whether values are in use, sets one value table aside at a time.
func TestADamagedLevelSetsFewValueTablesAside(t *testing.T) {
	fs := vfs.NewMem()
	o := separateOptions(fs)
	o.Tables.Size = 4 << 10
	d := storetest.MustOpen(t, o)
	for n := range 600 {
		i := n * 7919 % 600
		require.NoError(t, d.Put(fixture.Key(i), valueOf(4*i+1), nil))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	tables, err := d.Tables()
	require.NoError(t, err)
	require.NoError(t, d.Close())
	damageFile(t, fs, tables[0].Name, 20)

	d = storetest.Open(t, o)
	before := d.Metrics().Tables.ValueTables
	for n := range 2000 {
		require.NoError(t, d.Put(fixture.Key(400+n%200), valueOf(4*n+1), nil))
	}
	require.NoError(t, d.Flush())
	require.Eventually(t, func() bool { return d.Metrics().Compactions.TablesSetAside > 0 }, time.Minute, time.Millisecond)
	require.Less(t, d.Metrics().Compactions.TablesSetAside, before/2)
}

// Flushes of few values leave small value tables, which are put together.
func TestSmallValueTablesArePutTogether(t *testing.T) {
	d := storetest.Open(t, separateOptions(vfs.NewMem()))
	want := fixture.Contents{}
	for i := range 300 {
		require.NoError(t, d.Put(fixture.Key(i), valueOf(4*i+1), nil))
		want[string(fixture.Key(i))] = string(valueOf(4*i + 1))
		require.NoError(t, d.Flush())
	}
	storetest.Settle(t, d)
	require.LessOrEqual(t, d.Metrics().Tables.ValueTables, 64)
	storetest.RequireAllAgree(t, d, want)
	storetest.RequireNoFaults(t, d)
}

// damageFile flips a bit of a file of the database.
func damageFile(t *testing.T, fs vfs.FS, name string, at int) {
	path := filepath.Join("db", name)
	data, err := damage.ReadFile(fs, path)
	require.NoError(t, err)
	data[at] ^= 1
	require.NoError(t, damage.WriteFile(fs, path, data))
}

// What lookups read in value tables is counted, explained and has its memory in the figures of tables.
func TestReadsOfValueTablesAreCounted(t *testing.T) {
	fs := vfs.NewMem()
	o := separateOptions(fs)
	o.Cache.Size, o.Tables.Compression = -1, db.NoCompression
	d := storetest.Open(t, o)
	for i := range 100 {
		require.NoError(t, d.Put(fixture.Key(i), bytes.Repeat([]byte{byte(i)}, 5000), nil))
	}
	require.NoError(t, d.Flush())
	for i := range 100 {
		_, err := d.Get(fixture.Key(i))
		require.NoError(t, err)
	}
	m := d.Metrics()
	require.Greater(t, m.Total().BytesFromDisk, uint64(100*5000))
	require.Greater(t, m.Total().BlocksFromDisk, uint64(100))
	require.EqualValues(t, 100, m.Lookups.Found)
	require.Greater(t, m.Tables.Open, m.Tables.ValueTables)
	tables, size := m.AllTables()
	require.Greater(t, tables, m.Total().Tables)
	require.Greater(t, size, uint64(100*5000))
	_, err := d.MultiGet([][]byte{fixture.Key(1), fixture.Key(2)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, d.Metrics().Total().BytesFromDisk-m.Total().BytesFromDisk, uint64(2*5000))

	x, err := d.Explain(fixture.Key(7))
	require.NoError(t, err)
	last := x.Steps[len(x.Steps)-1]
	require.Equal(t, "value table", last.Run)
	require.True(t, last.BlockFromDisk)
	require.Greater(t, x.BytesRead, uint64(5000))
	require.Contains(t, x.String(), fmt.Sprintf("value table %06d", last.FileNum))
}
