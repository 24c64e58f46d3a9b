package db

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// TestAgreesWithAMap runs random operations on a database and on a sorted map, with tables so small
// that every level is in use. It compares the results of Get, GetTo, Has, iterators in both directions
// and snapshots, before and after flushes, compactions and reopening.
//
//make:portable
//make:wasm
func TestAgreesWithAMap(t *testing.T) {
	rounds := 6
	if raceEnabled || testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			newModelRun(t, seed).run(3000)
		})
	}
}

type modelRun struct {
	t     *testing.T
	rnd   *rand.Rand
	opts  *Options
	d     *DB
	model map[string]string
	views []modelView
	// resume ends the present pause of compactions; nil: there is none.
	resume func()
}

// modelView is a reader of one moment, with what it shows.
type modelView struct {
	snapshot *Snapshot // or
	iterator *Iterator
	model    map[string]string
}

func newModelRun(t *testing.T, seed uint64) *modelRun {
	m := &modelRun{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), opts: testOptions(vfs.NewMem()), model: map[string]string{}}
	m.opts.Compaction.MaxConcurrent = 1 + m.rnd.IntN(3)
	m.opts.Tables.RestartInterval = 1 + m.rnd.IntN(20)
	m.opts.Tables.Compression = Compression(m.rnd.IntN(4))
	m.opts.Memtables.Size = 4<<10 + m.rnd.IntN(20<<10)
	m.opts.Cache.Size = []int64{-1, 4 << 10, 1 << 20}[m.rnd.IntN(3)]
	if m.rnd.IntN(3) == 0 {
		m.opts.Cache.MaxOpenFiles = 10
	}
	m.d = mustOpen(t, m.opts)
	return m
}

func (m *modelRun) key() []byte {
	switch m.rnd.IntN(20) {
	case 0:
		return nil
	case 1:
		return []byte{0xff, byte(m.rnd.UintN(256))}
	case 2:
		return []byte{byte(m.rnd.UintN(3))}
	}
	return fmt.Appendf(nil, "k%d", m.rnd.IntN(700))
}

func (m *modelRun) run(ops int) {
	for range ops {
		switch op := m.rnd.IntN(100); {
		case op < 40:
			k, v := m.key(), bytes.Repeat([]byte{byte(m.rnd.UintN(256))}, m.rnd.IntN(120))
			require.NoError(m.t, m.d.Put(k, v, NoSync))
			m.model[string(k)] = string(v)
		case op < 55:
			k := m.key()
			require.NoError(m.t, m.d.Delete(k, NoSync))
			delete(m.model, string(k))
		case op < 65:
			m.batch()
		case op < 85:
			checkGet(m.t, m.d, m.key(), m.model)
		case op < 90:
			m.openOrCloseViews()
		case op < 92:
			it, err := m.d.NewIterator(m.bounds())
			require.NoError(m.t, err)
			checkIterator(m.t, it, m.rnd, m.model)
		case op < 96:
			require.NoError(m.t, m.d.Flush())
		case op == 96:
			a, b := m.key(), m.key()
			if bytes.Compare(a, b) > 0 {
				a, b = b, a
			}
			require.NoError(m.t, m.d.Compact(context.Background(), a, b))
		case op == 97:
			m.reopen()
		case op == 98:
			o := randomTuning(m.d.Options(), m.rnd)
			if m.resume != nil {
				o.Compaction = m.d.Options().Compaction
			}
			require.NoError(m.t, m.d.SetOptions(&o))
		case op == 99:
			m.pauseOrResume()
		}
	}
	m.closeViews()
	require.NoError(m.t, m.d.Compact(context.Background(), nil, nil))
	it, err := m.d.NewIterator(nil)
	require.NoError(m.t, err)
	checkIterator(m.t, it, m.rnd, m.model)
	m.reopen()
	for k := range m.model {
		checkGet(m.t, m.d, []byte(k), m.model)
	}
	require.NoError(m.t, m.d.Close())
}

// pauseOrResume begins a pause of compactions or ends the present one. While it lasts, level 0 may grow
// without a limit.
func (m *modelRun) pauseOrResume() {
	o := m.d.Options()
	o.Compaction = m.opts.Compaction
	if m.resume != nil {
		m.resume()
		m.resume = nil
	} else {
		o.Compaction.L0Slowdown, o.Compaction.L0Stop = 1<<15, 1<<16
		var err error
		m.resume, err = m.d.PauseCompactions(m.t.Context())
		require.NoError(m.t, err)
	}
	require.NoError(m.t, m.d.SetOptions(&o))
}

func (m *modelRun) batch() {
	var b Batch
	for range m.rnd.IntN(20) {
		k, v := m.key(), fmt.Appendf(nil, "batch%d", m.rnd.Int())
		if m.rnd.IntN(4) == 0 {
			b.Delete(k)
			delete(m.model, string(k))
		} else {
			b.Put(k, v)
			m.model[string(k)] = string(v)
		}
	}
	require.NoError(m.t, m.d.Apply(&b, NoSync))
}

// openOrCloseViews opens a view, or closes two of four.
func (m *modelRun) openOrCloseViews() {
	if len(m.views) < 4 {
		m.newView(m.model)
		return
	}
	for range 2 {
		m.closeView(m.rnd.IntN(len(m.views)))
	}
}

// newView opens a snapshot or an iterator that shows model, within the bounds of the iterator.
func (m *modelRun) newView(model map[string]string) {
	v := modelView{model: maps.Clone(model)}
	if m.rnd.IntN(2) == 0 {
		v.snapshot = m.d.NewSnapshot()
	} else {
		var err error
		v.iterator, err = m.d.NewIterator(m.bounds())
		require.NoError(m.t, err)
	}
	m.views = append(m.views, v)
}

// closeView compares a view with what it should show, and closes it.
func (m *modelRun) closeView(i int) {
	v := m.views[i]
	m.views = slices.Delete(m.views, i, i+1)
	if v.snapshot == nil {
		checkIterator(m.t, v.iterator, m.rnd, v.model)
		return
	}
	for range 5 {
		checkGet(m.t, v.snapshot, m.key(), v.model)
	}
	it, err := v.snapshot.NewIterator(m.bounds())
	require.NoError(m.t, err)
	checkIterator(m.t, it, m.rnd, v.model)
	require.NoError(m.t, v.snapshot.Close())
}

func (m *modelRun) closeViews() {
	for len(m.views) > 0 {
		m.closeView(0)
	}
}

func (m *modelRun) bounds() *IterOptions {
	o := &IterOptions{NoFillCache: m.rnd.IntN(2) == 0}
	if m.rnd.IntN(2) == 0 {
		o.LowerBound = m.key()
	}
	if m.rnd.IntN(2) == 0 {
		o.UpperBound = m.key()
	}
	return o
}

func (m *modelRun) close() {
	m.closeViews()
	require.NoError(m.t, m.d.Close())
	m.resume = nil // Close needs no end of the pause
}

func (m *modelRun) reopen() {
	m.close()
	m.d = mustOpen(m.t, m.opts)
}

// lookups has the methods that the store and its snapshots share.
type lookups interface {
	Get(key []byte) ([]byte, error)
	GetTo(dst, key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
}

func checkGet(t *testing.T, from lookups, key []byte, model map[string]string) {
	t.Helper()
	want, exists := model[string(key)]
	got, err := from.Get(key)
	appended, appendErr := from.GetTo([]byte("before"), key)
	has, hasErr := from.Has(key)
	require.NoError(t, hasErr, "key %q", key)
	require.Equal(t, exists, has, "key %q", key)
	require.Equal(t, err, appendErr, "key %q", key)
	require.Equal(t, "before"+want, string(appended), "key %q", key)
	if exists {
		require.NoError(t, err, "key %q", key)
		require.Equal(t, want, string(got), "key %q", key)
	} else {
		require.Equal(t, ErrNotFound, err, "key %q", key)
	}
}

// checkIterator compares the iterator with the keys of model within its bounds, and closes it.
func checkIterator(t *testing.T, it *Iterator, rnd *rand.Rand, model map[string]string) {
	t.Helper()
	var keys []string
	lower, upper := it.cursor.Bounds()
	for k := range model {
		if (lower == nil || k >= string(lower)) && (upper == nil || k < string(upper)) {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	at := -1
	check := func(ok bool) {
		t.Helper()
		require.Equal(t, at >= 0 && at < len(keys), ok)
		require.Equal(t, ok, it.Valid())
		if ok {
			require.Equal(t, keys[at], string(it.Key()))
			require.Equal(t, model[keys[at]], string(it.Value()))
		} else {
			require.Nil(t, it.Key())
		}
	}
	require.False(t, it.Prev())
	for range len(keys) + 2 { // the first step goes to the first key, and the last two beyond the end
		at = min(at+1, len(keys))
		check(it.Next())
	}
	for range len(keys) + 2 {
		at = max(at-1, -1)
		check(it.Prev())
	}
	at = 0
	for check(it.First()); it.Valid(); check(it.Next()) {
		at++
	}
	at = len(keys) - 1
	for check(it.Last()); it.Valid(); check(it.Prev()) {
		at--
	}
	n := 0
	for k, v := range it.All() {
		require.Equal(t, keys[n], string(k))
		require.Equal(t, model[keys[n]], string(v))
		n++
	}
	require.Equal(t, len(keys), n)
	at = len(keys)
	for range 60 {
		target := fmt.Appendf(nil, "k%d", rnd.IntN(800))
		switch op := rnd.IntN(4); {
		case op == 0:
			at = sort.SearchStrings(keys, string(target))
			check(it.SeekGE(target))
		case op == 1:
			at = sort.SearchStrings(keys, string(target)) - 1
			check(it.SeekLT(target))
		case op == 2: // also from before the first key
			at = min(max(at, -1)+1, len(keys))
			check(it.Next())
		default:
			at = max(min(at, len(keys))-1, -1)
			check(it.Prev())
		}
	}
	require.NoError(t, it.Close())
}
