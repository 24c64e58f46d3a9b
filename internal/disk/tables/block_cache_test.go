package tables_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/internal/test/testseed"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

func TestReadsThroughAFullCacheAgree(t *testing.T) {
	const n = 3000
	seed := testseed.Statistical(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	o := storetest.Options(vfs.NewMem())
	o.Cache.Size = 150 << 10 // the store has 370 KB
	o.Tables.BlockSize = 4 << 10
	d := storetest.Open(t, o)
	storetest.Fill(t, d, 0, n)
	storetest.Settle(t, d)
	s := d.NewSnapshot()
	defer s.Close()
	var dst []byte
	var held, wanted [100][]byte // the caller owns what Get returned, so it must not change
	for j := range 30_000 {
		i := rnd.IntN(n)
		key, want := fixture.Key(i), fixture.Value(i)
		got := result.Of(d.Get(key))(t)
		require.Equal(t, want, got)
		require.Equal(t, wanted[j%100], held[j%100])
		held[j%100], wanted[j%100] = got, want
		reader := []interface {
			GetTo(dst, key []byte) ([]byte, error)
			Has(key []byte) (bool, error)
		}{d, s}[rnd.IntN(2)]
		dst = result.Of(reader.GetTo(append(dst[:0], "before"...), key))(t)
		require.Equal(t, "before"+string(want), string(dst))
		other := rnd.IntN(2 * n)
		has := result.Of(reader.Has(fixture.Key(other)))(t)
		require.Equal(t, other < n, has)
	}
	m := d.Metrics()
	require.Greater(t, m.Cache.CompressedBlocks, m.Cache.Blocks/2)
	require.LessOrEqual(t, m.Cache.CompressedBlocks, m.Cache.Blocks)
	require.LessOrEqual(t, m.Cache.CompressedBytes, m.Cache.Bytes)
	require.LessOrEqual(t, m.Cache.Bytes, m.Cache.Capacity)
}

func TestCompactionsDoNotFillTheBlockCache(t *testing.T) {
	d := storetest.Open(t, storetest.Options(vfs.NewMem()))
	for range 3 {
		storetest.Fill(t, d, 0, 2000)
	}
	storetest.Settle(t, d)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	m := d.Metrics()
	require.NotZero(t, m.Compactions.Count)
	require.Zero(t, m.Cache.Blocks)
	require.Zero(t, m.Cache.Bytes)
	storetest.RequireValue(t, d, fixture.Key(7), fixture.Value(7))
	require.NotZero(t, d.Metrics().Cache.Blocks, "a lookup fills the cache")
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

// Another program truncates a table, or a disk loses its bytes, while the database is open. With mmap this would be a
// signal that no Go program survives. Here every lookup returns the right value or ErrCorruption.
func TestATableThatChangesUnderAnOpenDatabaseIsAnError(t *testing.T) {
	const keys = 500
	for _, c := range []struct {
		name string
		harm func(f *os.File, size int64) error
	}{
		{"cut to nothing", func(f *os.File, size int64) error { return f.Truncate(0) }},
		{"cut in the middle", func(f *os.File, size int64) error { return f.Truncate(size / 2) }},
		{"zeroed", func(f *os.File, size int64) error {
			_, err := f.WriteAt(make([]byte, size), 0)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d, err := db.Open(dir, &db.Options{
				Tables: db.TableOptions{BlockSize: 512, Compression: db.NoCompression}, Cache: db.CacheOptions{Size: 8 << 10},
			})
			require.NoError(t, err)
			defer d.Close()
			storetest.Fill(t, d, 0, keys)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			storetest.RequireValue(t, d, fixture.Key(0), fixture.Value(0)) // the table is open now

			files := result.Of(d.Tables())(t)
			require.Len(t, files, 1)
			f, err := os.OpenFile(filepath.Join(dir, base.FileName(base.FileTable, files[0].FileNum)), os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, c.harm(f, int64(files[0].Bytes)))
			require.NoError(t, f.Close())

			errs := 0
			for i := range keys {
				got, err := d.Get(fixture.Key(i))
				if err == nil {
					require.Equal(t, string(fixture.Value(i)), string(got))
					continue
				}
				require.ErrorIs(t, err, db.ErrCorruption)
				errs++
			}
			require.Greater(t, errs, keys/3)
			it := storetest.Iter(t, d, nil)
			n := 0
			for k := range it.All() {
				require.Equal(t, string(fixture.Key(n)), string(k))
				n++
			}
			require.Less(t, n, keys)
			require.ErrorIs(t, it.Close(), db.ErrCorruption)
		})
	}
}

// The bug: a compaction treated an internal key in two tables as corruption. goleveldb's
// RecoverFile and LevelDB's RepairDB leave such keys if an input was waiting for its removal. Level
// 0 was never compacted again, and writes ended when it was full.
func TestTwinsWithEqualValuesAreDropped(t *testing.T) {
	for _, level := range []int{0, 5} {
		t.Run(fmt.Sprintf("the other on level %d", level), func(t *testing.T) {
			files := fixture.Dir{
				"000003.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Del("b", 4), fixture.Put("b", 2, "2"), fixture.Put("d", 0, "0")),
				"000004.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Del("b", 4), fixture.Put("c", 3, "3"), fixture.Put("d", 0, "0")),
				"000005.ldb": fixture.Table(t, fixture.Put("a", 1, "1"), fixture.Put("e", 5, "5")),
			}
			files.AddManifest(t, 50, files.Edit(t, 40, 5, map[uint64]int{3: level, 4: 0, 5: 0}))
			d := storetest.Open(t, storetest.Options(files.FS(t)))
			want := fixture.Contents{"a": "1", "c": "3", "d": "0", "e": "5"}
			storetest.RequireAllAgree(t, d, want, "b", "f")
			report := result.Of(d.Check(context.Background()))(t)
			require.Empty(t, report.Faults)
			require.Equal(t, uint64(4), report.Twins)
			require.NoError(t, d.Compact(context.Background(), nil, nil))
			storetest.RequireAllAgree(t, d, want, "b", "f")
			report = result.Of(d.Check(context.Background()))(t)
			require.Zero(t, report.Twins)
			require.Equal(t, uint64(4), report.Entries)
		})
	}
}

// The bug: Check did not notice different values of one internal key, and iterators and compactions
// noticed them only as keys that do not ascend.
func TestTwinsWithUnequalValuesAreCorruption(t *testing.T) {
	d := storetest.Open(t, storetest.Options(fixture.UnequalTwins(t).FS(t)))
	report := result.Of(d.Check(context.Background()))(t)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "000003.ldb and 000004.ldb")
	require.NotContains(t, report.Faults[0], "another")

	for _, move := range []func(*db.Iterator) bool{
		func(it *db.Iterator) bool { return it.First() && it.Next() && it.Next() },
		func(it *db.Iterator) bool { return it.Last() && it.Prev() && it.Prev() && it.Prev() },
		func(it *db.Iterator) bool { return it.SeekGE([]byte("b")) },
		func(it *db.Iterator) bool { return it.First() && it.SeekGE([]byte("b")) },
		func(it *db.Iterator) bool { return it.SeekLT([]byte("c")) },
	} {
		it := storetest.Iter(t, d, nil)
		require.False(t, move(it))
		require.ErrorIs(t, it.Close(), db.ErrCorruption)
	}
	err := d.Compact(context.Background(), nil, nil)
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorContains(t, err, "sequence number 2")
}

// The bug: a step of an iterator forward that met unequal twins panicked, and so did Transaction.DeleteRange.
func TestStepsToUnequalTwinsAreCorruption(t *testing.T) {
	d := storetest.Open(t, storetest.Options(fixture.Level0(t, map[uint64][]fixture.Entry{
		3: {fixture.Put("a", 1, "1"), fixture.Put("aa", 2, "2"), fixture.Put("ab", 3, "3"), fixture.Put("b", 4, "4"), fixture.Put("c", 5, "5")},
		4: {fixture.Put("b", 4, "another"), fixture.Put("d", 6, "6")},
	}).FS(t)))
	it := storetest.Iter(t, d, nil)
	n := 0
	for it.Next() {
		n++
	}
	require.Equal(t, 3, n)
	require.False(t, it.Valid())
	require.False(t, it.Next())
	require.False(t, it.Prev())
	require.ErrorIs(t, it.Close(), db.ErrCorruption)
	err := d.Update(func(tx *db.Transaction) error { return tx.DeleteRange(nil, nil) })
	require.ErrorIs(t, err, db.ErrCorruption)
	require.ErrorIs(t, d.DeleteRange(t.Context(), []byte("aa"), []byte("bb"), nil), db.ErrCorruption)
}

// The bug: Repair called tables healthy that have different values of one internal key, because
// each of them is intact by itself. Check reported them, and compactions failed.
func TestRepairKeepsOneOfTwoUnequalTwins(t *testing.T) {
	fsys := fixture.UnequalTwins(t).FS(t)
	report := storetest.RepairWith(t, "db", storetest.Options(fsys))
	require.False(t, report.Healthy)
	require.EqualValues(t, 1, report.EntriesConflicting)
	d := storetest.Open(t, storetest.Options(fsys))
	checked := result.Of(d.Check(context.Background()))(t)
	require.Empty(t, checked.Faults)
	require.NoError(t, d.Compact(context.Background(), nil, nil))
	require.Contains(t, []string{"2", "another"}, string(result.Of(d.Get([]byte("b")))(t)))
	for key, want := range map[string]string{"a": "1", "c": "3", "d": "4", "x": "9"} {
		storetest.RequireValue(t, d, []byte(key), []byte(want))
	}
}

// rewriteFilter changes the filter block of a table, except its trailer. If restamp is set, it makes
// the checksum match.
func rewriteFilter(t testing.TB, fsys vfs.FS, table string, p filter.Policy, restamp bool, change func(block []byte)) {
	t.Helper()
	data := fixture.ReadFile(t, fsys, table)
	at, size := fixture.FilterBlock(t, data, p)
	change(data[at : at+size])
	if restamp {
		binary.LittleEndian.PutUint32(data[at+size+1:], util.MaskCRC(util.CRC32C(data[at:at+size+1])))
	}
	require.NoError(t, fsys.Remove(table))
	fixture.WriteFile(t, fsys, table, data)
}

func TestAnUnusableFilterIsReportedOnceAndChangesNoAnswer(t *testing.T) {
	bloom := filter.NewBloomPolicy(10)
	for _, c := range []struct {
		name    string
		policy  filter.Policy // of the table
		restamp bool
		change  func(block []byte)
		corrupt bool
		says    string
	}{
		{"a flipped bit", bloom, false, func(b []byte) { b[3] ^= 0x10 }, true, "checksum"},
		{"an unknown name", fixture.Renamed{As: "test.Mine"}, false, nil, false, `"test.Mine" is not known`},
		{"base_lg out of range", bloom, true, func(b []byte) { b[len(b)-1] = 64 }, true, "base_lg is 64"},
		{"no array of offsets", bloom, true, func(b []byte) { b[len(b)-2] = 0xff }, true, "array of offsets"},
		{"offsets that fall", bloom, true, func(b []byte) { b[len(b)-7] = 0x7f }, true, "filter 0 of 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := storetest.Options(mem)
			o.Filters.Policy = c.policy
			d := storetest.MustOpen(t, o)
			storetest.Fill(t, d, 0, 100)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			table := fixture.Names(t, mem, base.FileTable)[0]
			if c.change != nil {
				rewriteFilter(t, mem, filepath.Join("db", table), c.policy, c.restamp, c.change)
			}

			var mu sync.Mutex
			var reported []report.FilterInfo
			o = storetest.Options(mem)
			o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) {
				storetest.RequireValue(t, d, fixture.Key(5), fixture.Value(5)) // no lock is held, so the callback may read the same table
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, i)
			}}
			d = storetest.Open(t, o)
			require.Empty(t, reported, "Open reads no table")
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for i := range 100 {
						storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
					}
				})
			}
			readers.Wait()
			_, err := d.Get([]byte("key000050x")) // within the table's range
			require.ErrorIs(t, err, db.ErrNotFound)

			require.Len(t, reported, 1)
			_, num, _ := base.ParseFileName(table)
			require.Equal(t, num, reported[0].FileNum)
			require.Equal(t, 0, reported[0].Level)
			require.Equal(t, c.policy.Name(), reported[0].Policy)
			require.ErrorContains(t, reported[0].Err, c.says)
			if c.corrupt {
				require.ErrorIs(t, reported[0].Err, db.ErrCorruption)
				require.ErrorContains(t, reported[0].Err, table)
				require.Equal(t, 1, d.Metrics().Tables.WithDamagedFilter)
			} else {
				require.NotErrorIs(t, reported[0].Err, db.ErrCorruption)
				require.Equal(t, 1, d.Metrics().Tables.WithUnknownFilter)
			}
		})
	}
}

func TestIntactAndAbsentFiltersAreNotReported(t *testing.T) {
	for _, p := range []filter.Policy{filter.NewBloomPolicy(10), filter.None} {
		t.Run(p.Name(), func(t *testing.T) {
			o := storetest.Options(vfs.NewMem())
			o.Filters.Policy = p
			d := storetest.MustOpen(t, o)
			storetest.Fill(t, d, 0, 100)
			require.NoError(t, d.Flush())
			require.NoError(t, d.Close())
			o.Filters.Policy = nil
			o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) { t.Errorf("FilterUnusable was called with %+v", i) }}
			storetest.RequireValue(t, storetest.Open(t, o), fixture.Key(5), fixture.Value(5))
		})
	}
}

// A table that was closed to limit the open files is reopened without another report.
func TestATableThatIsReopenedIsNotReportedAgain(t *testing.T) {
	o := storetest.Options(vfs.NewMem())
	o.Filters.Policy, o.Compaction.L0Trigger, o.Compaction.L0Slowdown, o.Compaction.L0Stop = fixture.Renamed{As: "test.Mine"}, 100, 100, 200
	d := storetest.MustOpen(t, o)
	for i := range 25 {
		storetest.Fill(t, d, 100*i, 100*i+100)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	reported := map[uint64]int{}
	o.Filters.Policy, o.Cache.MaxOpenFiles = nil, 10
	o.EventListener = &db.EventListener{FilterUnusable: func(i report.FilterInfo) { reported[i.FileNum]++ }}
	d = storetest.Open(t, o)
	for range 3 {
		for i := range 25 {
			storetest.RequireValue(t, d, fixture.Key(100*i), fixture.Value(100*i))
		}
	}
	require.Len(t, reported, 25)
	for num, times := range reported {
		require.Equal(t, 1, times, "table %d", num)
	}
}
