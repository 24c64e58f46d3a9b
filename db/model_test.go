package db

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// storeModel is a store and a map that must have the same content.
type storeModel struct {
	t                              *testing.T
	rnd                            *rand.Rand
	o                              *Options
	d                              *DB
	now                            contents
	views                          []storeView
	values, tables                 int
	linked, rewritten, conflicting int
	dropped                        uint64 // not 0 if a deletion of a range removed tables
}

// storeView is a snapshot or an iterator, and what it shows.
type storeView struct {
	s    *Snapshot
	it   *Iterator
	then contents
}

const modelKeys = 1000

// Random histories of writes, loads, ingests, deletions of ranges by every call, snapshots, iterators, flushes,
// compactions and openings are compared with a map.
func TestBulkChangesAndWritesAgreeWithAMap(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 1000
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		o := testOptions(vfs.NewMem())
		o.Compaction.MaxConcurrent, o.Tables.Size, o.Tables.Compression = 2, 4<<10, NoCompression
		m := &storeModel{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), o: o, d: mustOpen(t, o), now: contents{}}
		for n := range steps {
			m.step()
			if n%10 == 0 {
				m.compare()
			}
			key := m.key()
			requireContentOf(t, m.d, key, m.now)
		}
		m.compare()
		m.closeViews()
		require.Positive(t, m.linked, "no table was linked")
		require.Positive(t, m.rewritten, "no table was rewritten")
		require.Positive(t, m.conflicting, "no transaction conflicted")
		require.NotZero(t, m.dropped, "no deletion of a range removed a table")
		t.Logf("%d tables linked, %d rewritten", m.linked, m.rewritten)
		require.Empty(t, namesOf(t, o.FS, base.FileTemp))
		requireNoFaults(t, m.d)
		require.NoError(t, m.d.Close())
	})
}

// requireContentOf requires that Get of a key returns what the map has.
func requireContentOf(t *testing.T, r readable, key string, want contents) {
	t.Helper()
	value, err := r.Get([]byte(key))
	if _, there := want[key]; !there {
		require.Equal(t, ErrNotFound, err, key)
		return
	}
	require.NoError(t, err, key)
	require.Equal(t, want[key], string(value), key)
}

func (m *storeModel) step() {
	switch n := m.rnd.IntN(60); {
	case n < 12:
		m.put()
	case n < 15:
		m.batch()
	case n < 20:
		m.load()
	case n < 30:
		m.ingest()
	case n < 36:
		start, limit := m.bounds()
		require.NoError(m.t, m.d.DeleteRange(background, start, limit, NoSync))
		m.forget(start, limit)
		m.dropped = max(m.dropped, m.d.txns.untraced.Last())
	case n < 38:
		start, limit := m.bounds()
		require.NoError(m.t, m.d.Update(func(tx *Transaction) error { return tx.DeleteRange(start, limit) }))
		m.forget(start, limit)
	case n < 44:
		m.view()
	case n < 52:
		m.closeView()
	case n < 55:
		require.NoError(m.t, m.d.Flush())
	case n < 58:
		start, limit := m.bounds()
		require.NoError(m.t, m.d.Compact(background, start, limit))
	default:
		m.closeViews()
		require.NoError(m.t, m.d.Close())
		m.d = mustOpen(m.t, m.o)
	}
}

func (m *storeModel) key() string { return string(testKey(m.rnd.IntN(modelKeys))) }

// value returns a value that no other entry has, or "" for a deletion.
func (m *storeModel) value() string {
	m.values++
	if m.rnd.IntN(4) == 0 {
		return ""
	}
	return fmt.Sprintf("%060d", m.values)
}

// bounds draws a range, now and then without a bound or empty.
func (m *storeModel) bounds() (start, limit []byte) {
	a, b := m.rnd.IntN(modelKeys), m.rnd.IntN(modelKeys)
	if m.rnd.IntN(2) == 0 {
		b = a + m.rnd.IntN(100)
	}
	start, limit = testKey(min(a, b)), testKey(max(a, b))
	switch m.rnd.IntN(20) {
	case 0:
		start = nil
	case 1:
		limit = nil
	}
	return start, limit
}

// some draws entries of neighbouring keys.
func (m *storeModel) some() contents {
	says, step := contents{}, 1+m.rnd.IntN(10)
	from, most := m.rnd.IntN(modelKeys), []int{20, 60, 400}[m.rnd.IntN(3)]
	for i := from; i < min(from+1+m.rnd.IntN(most), modelKeys); i += step {
		says[string(testKey(i))] = m.value()
	}
	return says
}

// note changes the map as entries do.
func (m *storeModel) note(says contents) {
	maps.Copy(m.now, says)
	maps.DeleteFunc(m.now, func(_, value string) bool { return value == "" })
}

// forget changes the map as the deletion of a range does.
func (m *storeModel) forget(start, limit []byte) {
	maps.DeleteFunc(m.now, func(key, _ string) bool {
		return (start == nil || key >= string(start)) && (limit == nil || key < string(limit))
	})
}

// put writes a few entries, one after the other.
func (m *storeModel) put() {
	for range 1 + m.rnd.IntN(60) {
		key, value := m.key(), m.value()
		if value == "" {
			require.NoError(m.t, m.d.Delete([]byte(key), NoSync))
		} else {
			require.NoError(m.t, m.d.Put([]byte(key), []byte(value), NoSync))
		}
		m.note(contents{key: value})
	}
}

// batch applies a batch of puts, deletions and ranges in random order.
func (m *storeModel) batch() {
	var b, other Batch
	into := &b
	for i := range m.rnd.IntN(12) {
		if key, value := m.key(), m.value(); m.rnd.IntN(4) == 0 {
			start, limit := m.bounds()
			into.DeleteRange(start, limit)
			m.forget(start, limit)
		} else {
			if value == "" {
				into.Delete([]byte(key))
			} else {
				into.Put([]byte(key), []byte(value))
			}
			m.note(contents{key: value})
		}
		if i == 6 {
			into = &other
		}
	}
	b.Append(&other)
	require.NoError(m.t, m.d.Apply(&b, NoSync))
}

// load loads entries. Often there are writes meanwhile, and now and then it is given up.
func (m *storeModel) load() {
	l, says := newLoader(m.t, m.d), m.some()
	for _, key := range slices.Sorted(maps.Keys(says)) {
		if says[key] == "" {
			require.NoError(m.t, l.Delete([]byte(key)))
		} else {
			require.NoError(m.t, l.Put([]byte(key), []byte(says[key])))
		}
		if m.rnd.IntN(50) == 0 {
			m.put()
		}
	}
	if m.rnd.IntN(6) == 0 {
		require.NoError(m.t, l.Close())
		return
	}
	require.NoError(m.t, l.Commit())
	m.note(says)
}

// table makes a table, in which some keys have older entries too.
func (m *storeModel) table() (path string, says contents) {
	says = m.some()
	last := m.d.finder.VisibleSeq.Load()
	low := []uint64{0, last / 2, last + 1, last + 1 + m.rnd.Uint64N(1000)}[m.rnd.IntN(4)]
	var entries []madeEntry
	for _, key := range slices.Sorted(maps.Keys(says)) {
		seq := low + m.rnd.Uint64N(20) + 2
		entries = append(entries, madeEntry{key, seq, says[key]})
		if m.rnd.IntN(2) == 0 {
			entries = append(entries, madeEntry{key, seq - 1, m.value()})
		}
	}
	m.tables++
	return makeTable(m.t, m.o.FS, fmt.Sprint("in/", m.tables), entries, func(o *sstable.WriterOptions) {
		o.Filter = []filter.Policy{nil, filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(8)}[m.rnd.IntN(3)]
	}), says
}

// ingest ingests a few tables. A transaction that is open meanwhile conflicts if it read a key of them.
func (m *storeModel) ingest() {
	var paths []string
	all := contents{}
	for range 1 + m.rnd.IntN(3) {
		path, says := m.table()
		paths = append(paths, path)
		maps.Copy(all, says)
	}
	var tx *Transaction
	read := m.key()
	if m.rnd.IntN(2) == 0 {
		read = slices.Min(slices.Collect(maps.Keys(all)))
	}
	if m.rnd.IntN(3) == 0 {
		tx = m.d.NewTransaction(nil)
		_, err := tx.Has([]byte(read))
		require.NoError(m.t, err)
		require.NoError(m.t, tx.Put([]byte("transaction"), []byte(read)))
	}
	info := mustIngest(m.t, m.d, paths...)
	m.linked, m.rewritten = m.linked+info.Linked, m.rewritten+info.Rewritten
	m.note(all)
	if tx == nil {
		return
	}
	err := tx.Commit()
	if _, hit := all[read]; hit {
		require.Equal(m.t, ErrConflict, err)
		m.conflicting++
		return
	}
	require.NoError(m.t, err, "it read another key")
	m.now["transaction"] = read
}

func (m *storeModel) view() {
	v := storeView{s: m.d.NewSnapshot(), then: maps.Clone(m.now)}
	if m.rnd.IntN(2) == 0 { // an iterator does not keep a table from being linked
		it, err := v.s.NewIterator(nil)
		require.NoError(m.t, err)
		require.NoError(m.t, v.s.Close())
		v.s, v.it = nil, it
	}
	m.views = append(m.views, v)
}

func (m *storeModel) closeView() {
	if len(m.views) == 0 {
		return
	}
	v := m.views[0]
	m.views = m.views[1:]
	v.compare(m.t)
	if v.s != nil {
		require.NoError(m.t, v.s.Close())
	} else {
		require.NoError(m.t, v.it.Close())
	}
}

func (m *storeModel) closeViews() {
	for len(m.views) > 0 {
		m.closeView()
	}
}

func (v storeView) compare(t *testing.T) {
	t.Helper()
	if v.s != nil {
		requireAll(t, v.s, v.then)
		return
	}
	requireWalks(t, v.it, v.then)
}

// compare compares the store and all views.
func (m *storeModel) compare() {
	requireAll(m.t, m.d, m.now)
	for _, v := range m.views {
		v.compare(m.t)
	}
}

// requireAll compares what r shows with a map.
func requireAll(t *testing.T, r iterable, want contents) {
	t.Helper()
	it, err := r.NewIterator(nil)
	require.NoError(t, err)
	requireWalks(t, it, want)
	require.NoError(t, it.Close())
}

// requireWalks compares what an iterator shows, in both directions, with a map.
func requireWalks(t *testing.T, it *Iterator, want contents) {
	t.Helper()
	got := contents{}
	for key, value := range it.All() {
		got[string(key)] = string(value)
	}
	require.NoError(t, it.Err())
	require.Equal(t, want, got)
	n := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		require.Equal(t, want[string(it.Key())], string(it.Value()))
		n++
	}
	require.NoError(t, it.Err())
	require.Len(t, want, n)
}
