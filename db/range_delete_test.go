package db

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// Random writes, deletions of ranges by every call, snapshots, iterators, flushes, compactions and
// reopenings, compared with a map.
func TestRangeDeletionsAgreeWithAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 4))
	dropped := uint64(0)
	for range 8 {
		m := &rangeModel{rnd: rnd, fs: vfs.NewMem(), now: map[string]string{}}
		m.open(t)
		for range 400 {
			m.step(t)
		}
		m.check(t)
		m.closeViews(t)
		require.NoError(t, m.d.Close())
		dropped += m.dropped
	}
	require.NotZero(t, dropped, "no table was ever removed whole")
}

// rangeModel is a store and the map that it must agree with.
type rangeModel struct {
	rnd     *rand.Rand
	fs      *vfs.Mem
	d       *DB
	now     map[string]string
	views   []rangeView
	writes  int
	dropped uint64
}

// rangeView is a snapshot or an iterator, and what it shows.
type rangeView struct {
	s    *Snapshot
	it   *Iterator
	then map[string]string
}

func (m *rangeModel) open(t *testing.T) {
	t.Helper()
	m.d = mustOpen(t, testOptions(m.fs))
}

func (m *rangeModel) key() string { return fmt.Sprintf("k%04d", m.rnd.IntN(2000)) }

// bounds draws a range, now and then without a bound or empty.
func (m *rangeModel) bounds() (start, limit []byte) {
	a, b := m.rnd.IntN(2000), m.rnd.IntN(2000)
	if m.rnd.IntN(2) == 0 {
		b = a + m.rnd.IntN(100)
	}
	start, limit = fmt.Appendf(nil, "k%04d", min(a, b)), fmt.Appendf(nil, "k%04d", max(a, b))
	switch m.rnd.IntN(20) {
	case 0:
		start = nil
	case 1:
		limit = nil
	}
	return start, limit
}

func (m *rangeModel) deleteRange(start, limit []byte) {
	maps.DeleteFunc(m.now, func(key, _ string) bool {
		return (start == nil || key >= string(start)) && (limit == nil || key < string(limit))
	})
}

func (m *rangeModel) step(t *testing.T) {
	t.Helper()
	switch n := m.rnd.IntN(40); {
	case n < 15:
		for range 1 + m.rnd.IntN(100) {
			key, value := m.key(), fmt.Sprintf("%d %s", m.writes, make([]byte, 60))
			m.writes++
			require.NoError(t, m.d.Put([]byte(key), []byte(value), NoSync))
			m.now[key] = value
		}
	case n < 18:
		key := m.key()
		require.NoError(t, m.d.Delete([]byte(key), NoSync))
		delete(m.now, key)
	case n < 24:
		start, limit := m.bounds()
		require.NoError(t, m.d.DeleteRange(t.Context(), start, limit, NoSync))
		m.deleteRange(start, limit)
		m.dropped = max(m.dropped, m.d.txns.untraced.Last())
	case n < 27:
		m.batch(t)
	case n < 28:
		start, limit := m.bounds()
		require.NoError(t, m.d.Update(func(tx *Transaction) error { return tx.DeleteRange(start, limit) }))
		m.deleteRange(start, limit)
	case n < 29:
		m.view(t)
	case n < 32:
		m.closeView(t)
	case n < 34:
		require.NoError(t, m.d.Flush())
	case n < 36:
		start, limit := m.bounds()
		require.NoError(t, m.d.Compact(t.Context(), start, limit))
	case n < 39:
		m.check(t)
	default:
		m.closeViews(t)
		require.NoError(t, m.d.Close())
		m.open(t)
	}
}

// batch applies a batch of puts, deletions and ranges in random order.
func (m *rangeModel) batch(t *testing.T) {
	t.Helper()
	var b, other Batch
	into := &b
	for i := range m.rnd.IntN(12) {
		switch m.rnd.IntN(4) {
		case 0:
			start, limit := m.bounds()
			into.DeleteRange(start, limit)
			m.deleteRange(start, limit)
		case 1:
			key := m.key()
			into.Delete([]byte(key))
			delete(m.now, key)
		default:
			key, value := m.key(), fmt.Sprint("batch ", i, m.writes)
			m.writes++
			into.Put([]byte(key), []byte(value))
			m.now[key] = value
		}
		if i == 6 {
			into = &other
		}
	}
	b.Append(&other)
	require.NoError(t, m.d.Apply(&b, NoSync))
}

func (m *rangeModel) view(t *testing.T) {
	t.Helper()
	v := rangeView{then: maps.Clone(m.now)}
	if m.rnd.IntN(2) == 0 {
		v.s = m.d.NewSnapshot()
	} else {
		var err error
		v.it, err = m.d.NewIterator(nil)
		require.NoError(t, err)
	}
	m.views = append(m.views, v)
}

func (m *rangeModel) closeView(t *testing.T) {
	t.Helper()
	if len(m.views) == 0 {
		return
	}
	v := m.views[0]
	m.views = m.views[1:]
	v.check(t)
	if v.s != nil {
		require.NoError(t, v.s.Close())
	} else {
		require.NoError(t, v.it.Close())
	}
}

func (m *rangeModel) closeViews(t *testing.T) {
	t.Helper()
	for len(m.views) > 0 {
		m.closeView(t)
	}
}

func (v *rangeView) check(t *testing.T) {
	t.Helper()
	it := v.it
	if v.s != nil {
		var err error
		it, err = v.s.NewIterator(nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, it.Close()) }()
	}
	requireAll(t, it, v.then)
}

// requireAll compares what an iterator shows, in both directions, with a map.
func requireAll(t *testing.T, it *Iterator, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for key, value := range it.All() {
		got[string(key)] = string(value)
	}
	require.NoError(t, it.Err())
	require.Equal(t, want, got)
	n := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		n++
	}
	require.Equal(t, len(want), n)
}

// check compares the store with the map, by iterators and lookups, and all views.
func (m *rangeModel) check(t *testing.T) {
	t.Helper()
	it, err := m.d.NewIterator(nil)
	require.NoError(t, err)
	requireAll(t, it, m.now)
	require.NoError(t, it.Close())
	for range 50 {
		key := m.key()
		value, err := m.d.Get([]byte(key))
		if want, has := m.now[key]; has {
			require.NoError(t, err)
			require.Equal(t, want, string(value))
		} else {
			require.Equal(t, ErrNotFound, err)
		}
	}
	for i := range m.views {
		m.views[i].check(t)
	}
}

// twentyTables returns a store whose keys 0 to 9,999 are in about twenty tables of the last level.
func twentyTables(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	o := testOptions(fs)
	o.Tables.Size = 64 << 10
	o.Tables.Compression = NoCompression
	d := openTest(t, o)
	fill(t, d, 0, 10_000)
	require.NoError(t, d.Compact(t.Context(), nil, nil))
	return d
}

func tableCount(t testing.TB, d *DB) int {
	t.Helper()
	infos, err := d.Tables()
	require.NoError(t, err)
	return len(infos)
}

// Without snapshots only the ends of the range are read, and all other tables of it go at once.
func TestADeletedRangeFreesItsTables(t *testing.T) {
	fs := wrap.NewCounting(vfs.NewMem())
	d := twentyTables(t, fs)
	before, reads := tableCount(t, d), fs.Snapshot().Of(base.FileTable).Reads
	require.NoError(t, d.DeleteRange(t.Context(), testKey(100), testKey(9_900), nil))
	require.LessOrEqual(t, tableCount(t, d), 4, "of %d", before)
	require.LessOrEqual(t, fs.Snapshot().Of(base.FileTable).Reads-reads, uint64(16), "two tables are read, of %d", before)
	for i := 0; i < 10_000; i += 7 {
		has, err := d.Has(testKey(i))
		require.NoError(t, err)
		require.Equal(t, i < 100 || i >= 9_900, has, "key %d", i)
	}
	report, err := d.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

// Tables that a snapshot needs stay until it is closed.
func TestADeletedRangeFreesItsTablesWhenTheSnapshotIsClosed(t *testing.T) {
	d := twentyTables(t, vfs.NewMem())
	before := tableCount(t, d)
	s := d.NewSnapshot()
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	require.GreaterOrEqual(t, tableCount(t, d), before)
	for i := 0; i < 10_000; i += 97 {
		value, err := s.Get(testKey(i))
		require.NoError(t, err)
		require.Equal(t, testValue(i), value)
		has, err := d.Has(testKey(i))
		require.NoError(t, err)
		require.False(t, has)
	}
	require.NoError(t, s.Close())
	eventually(t, func() bool { return tableCount(t, d) < before/2 })
	it, err := d.NewIterator(nil)
	require.NoError(t, err)
	require.False(t, it.First())
	require.NoError(t, it.Close())
}

func TestDeleteRangeRefusesWhatItCannotDo(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	fill(t, d, 0, 100)
	require.ErrorContains(t, d.DeleteRange(t.Context(), []byte("b"), []byte("a"), nil), "start is after limit")
	var none context.Context
	require.ErrorContains(t, d.DeleteRange(none, nil, nil, nil), "the context is nil")
	require.NoError(t, d.DeleteRange(t.Context(), testKey(5), testKey(5), nil))
	require.ErrorIs(t, d.DeleteRange(t.Context(), make([]byte, MaxKeySize+1), nil, nil), ErrTooLarge)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.DeleteRange(ended, nil, nil, nil), context.Canceled)
	has, err := d.Has(testKey(5))
	require.NoError(t, err)
	require.True(t, has)
	var b Batch
	b.DeleteRange(nil, nil)
	_, err = b.MarshalBinary()
	require.ErrorContains(t, err, "no binary form")
	require.Equal(t, 1, b.Len())
	b.Reset()
	require.Zero(t, b.Len())
	var kinds []EntryKind
	b.Put([]byte("a"), nil)
	b.DeleteRange([]byte("a"), []byte("c"))
	b.Delete([]byte("d"))
	b.DeleteRange(nil, []byte("b"))
	for i, e := range b.All() {
		require.Equal(t, len(kinds), i)
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []EntryKind{EntryPut, EntryDeleteRange, EntryDelete, EntryDeleteRange}, slices.Clone(kinds))
}

// The bug: with a context that was done, about half of the calls deleted.
func TestDeleteRangeWithADoneContextDeletesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		d := mustOpen(t, testOptions(vfs.NewMem()))
		putAll(t, d, "a", "1")
		require.NoError(t, d.Flush())
		require.Equal(t, context.Canceled, d.DeleteRange(ctx, nil, nil, nil))
		requireContent(t, d, "a", "1")
		require.NoError(t, d.Close())
	}
}
