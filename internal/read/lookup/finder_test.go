package lookup

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/tables"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/memtable"
	"github.com/sievedb/sievedb/sstable"
)

var policy = filter.NewCacheLineBloomPolicy(20)

// emptyMemtable returns a memtable without entries.
func emptyMemtable() *Memtable {
	return &Memtable{Memtable: memtable.New(base.Bytewise, memtable.Slack+1<<10)}
}

// newFinder returns a finder with state s and visible sequence number 9.
func newFinder(o Options, s *State) *Finder {
	f := &Finder{}
	if o.Closed == nil {
		o.Closed = func() bool { return false }
	}
	f.Init(o)
	f.State.Store(s)
	f.VisibleSeq.Store(9)
	return f
}

// requireValue looks key n up in each way; "" means that it has no value.
func requireValue(t *testing.T, f *Finder, n int, at *At, want string) {
	t.Helper()
	key := tabletest.Key(n)
	var lookup sstable.Lookup
	value, err := f.Find(&lookup, key, at)
	values, groupErr := f.FindAll([][]byte{key}, at)
	x, explainErr := f.Explain(key, at)
	require.NoError(t, groupErr)
	require.NoError(t, explainErr)
	if want == "" {
		require.Equal(t, base.ErrNotFound, err)
		require.Nil(t, values[0])
		require.Equal(t, base.KindDelete, x.Kind)
	} else {
		require.NoError(t, err)
		require.Equal(t, want, string(value))
		require.Equal(t, want, string(values[0]))
		require.Equal(t, base.KindSet, x.Kind)
	}
	lookup.Release()
}

func TestALookupShowsTheMomentThatItIsGiven(t *testing.T) {
	s := tabletest.New(t, policy)
	s.Add(2, 2, "old", 1, 2, 3)
	before := &State{Mem: emptyMemtable(), Version: s.Version()}
	s.Add(1, 5, "new", 2, 4)
	after := &State{Mem: emptyMemtable(), Imm: []*Memtable{emptyMemtable()}, Version: s.Version()}
	require.True(t, after.Imm[0].Add(7, base.KindSet, tabletest.Key(1), []byte("newer")))
	require.True(t, after.Mem.Add(8, base.KindDelete, tabletest.Key(3), nil))
	require.True(t, after.Mem.Add(10, base.KindSet, tabletest.Key(2), []byte("not visible yet")))
	f := newFinder(Options{Cache: s.Cache}, after)
	moments := []struct {
		name string
		at   *At
		want [4]string // of keys 1 to 4
	}{
		{"now", nil, [4]string{"newer", "new", "", "new"}},
		{"before the tombstone", &At{Seq: 7}, [4]string{"newer", "new", "old", "new"}},
		{"before the new table", &At{Seq: 4}, [4]string{"old", "old", "old", ""}},
		{"before everything", &At{Seq: 1}, [4]string{}},
		{"a pinned state", &At{State: before, Seq: 9}, [4]string{"old", "old", "old", ""}},
		{"a moment of a pinned state", &At{State: before, Seq: 1}, [4]string{}},
	}
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			for i, want := range m.want {
				requireValue(t, f, i+1, m.at, want)
			}
		})
	}
}

// remove removes the file of a table.
func remove(t *testing.T, s *tabletest.Store, table *version.FileMeta) {
	require.NoError(t, s.FS.Remove(s.Dir.File(base.FileTable, table.Num)))
}

// replaceOnError returns the options of a finder whose state becomes next as soon as a table cannot be
// opened, as if a compaction had replaced the table meanwhile.
func replaceOnError(f **Finder, cache *tables.Cache, next *State) Options {
	return Options{Cache: cache, Closed: func() bool {
		(*f).State.Store(next)
		return false
	}}
}

func TestALookupStartsOverWhenItsTablesWereRemoved(t *testing.T) {
	lookups := map[string]func(f *Finder, key []byte) (string, error){
		"Find": func(f *Finder, key []byte) (string, error) {
			var lookup sstable.Lookup
			defer lookup.Release()
			value, err := f.Find(&lookup, key, nil)
			return string(value), err
		},
		"FindAll": func(f *Finder, key []byte) (string, error) {
			values, err := f.FindAll([][]byte{key}, nil)
			return string(values[0]), err
		},
		"Explain": func(f *Finder, key []byte) (string, error) {
			x, err := f.Explain(key, nil)
			if err == nil && x.Kind == base.KindSet {
				return "value", nil
			}
			return "", err
		},
	}
	for name, look := range lookups {
		t.Run(name, func(t *testing.T) {
			s, compacted := tabletest.New(t, policy), tabletest.New(t, policy)
			table := s.Add(1, 5, "value", 1)
			old := &State{Mem: emptyMemtable(), Version: s.Version()}
			next := &State{Mem: emptyMemtable(), Version: compacted.Version()}
			require.True(t, next.Mem.Add(5, base.KindSet, tabletest.Key(1), []byte("value")))
			remove(t, s, table)
			old.Version.Unref()

			var f *Finder
			f = newFinder(replaceOnError(&f, s.Cache, next), old)
			value := result.Of(look(f, tabletest.Key(1)))(t)
			require.Equal(t, "value", value)
		})
	}
}

// Nothing removes the tables of a pinned state, so a missing one is an error at once, although the
// current state is another one.
func TestAMissingTableOfAPinnedStateIsAnError(t *testing.T) {
	s := tabletest.New(t, policy)
	table := s.Add(1, 5, "value", 1)
	pinned := &State{Mem: emptyMemtable(), Version: s.Version()}
	next := &State{Mem: emptyMemtable(), Version: tabletest.New(t, policy).Version()}
	remove(t, s, table)
	f := newFinder(Options{Cache: s.Cache}, next)
	at := &At{State: pinned, Seq: 9}
	var lookup sstable.Lookup
	_, err := f.Find(&lookup, tabletest.Key(1), at)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, err.Error(), "MaxOpenFiles")
	_, err = f.FindAll([][]byte{tabletest.Key(1)}, at)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, err.Error(), "MaxOpenFiles")
	require.ErrorIs(t, result.Err(f.Explain(tabletest.Key(1), at)), fs.ErrNotExist)
	require.EqualValues(t, 2, f.Totals().Gets, "Explain is not counted")
}

// tightStore returns a pinned state of two tables, 1 and 2 with keys of these numbers, and a cache for one open table.
// Each of the first evictions openings of table 1 opens table 2, which closes table 1 before its reader is used.
func tightStore(t *testing.T, evictions int) (at *At, cache *tables.Cache) {
	s := tabletest.New(t, policy)
	one, two := s.Add(1, 5, "first", 1), s.Add(1, 5, "second", 2)
	cache = tables.NewCache(tables.CacheOptions{
		FS: s.FS, Dir: s.Dir.Path, MaxOpen: 1,
		Reader: sstable.ReaderOptions{Comparer: base.Bytewise, Policies: []filter.Policy{policy}},
		Opened: func(table *version.FileMeta, _ sstable.FilterStatus) {
			if table == one && evictions > 0 {
				evictions--
				result.Of(cache.Get(two))(t)
			}
		},
	})
	t.Cleanup(cache.Close)
	return &At{State: &State{Mem: emptyMemtable(), Version: s.Version()}, Seq: 9}, cache
}

func TestALookupStartsOverWhenItsTableIsClosed(t *testing.T) {
	at, cache := tightStore(t, 5)
	f := newFinder(Options{Cache: cache}, at.State)
	for _, at := range []*At{nil, at} {
		values := result.Of(f.FindAll([][]byte{tabletest.Key(1), tabletest.Key(2), tabletest.Key(3)}, at))(t)
		require.Equal(t, [][]byte{[]byte("first"), []byte("second"), nil}, values)
	}
	for _, at := range []*At{nil, at} {
		at2, cache := tightStore(t, 5)
		f := newFinder(Options{Cache: cache}, at2.State)
		if at != nil {
			at = at2
		}
		var lookup sstable.Lookup
		value := result.Of(f.Find(&lookup, tabletest.Key(1), at))(t)
		require.Equal(t, "first", string(value))
		lookup.Release()
		requireValue(t, f, 2, at, "second")
	}
}

func TestATableThatIsClosedAgainAndAgainIsAnErrorThatNamesTheOption(t *testing.T) {
	at, cache := tightStore(t, 1<<30)
	closed := false
	f := newFinder(Options{Cache: cache, MaxOpenFiles: func() int { return 1 }, Closed: func() bool { return closed }}, at.State)
	look := func() []error {
		var lookup sstable.Lookup
		defer lookup.Release()
		_, find := f.Find(&lookup, tabletest.Key(1), nil)
		_, all := f.FindAll([][]byte{tabletest.Key(1)}, nil)
		_, explain := f.Explain(tabletest.Key(1), at)
		return []error{find, all, explain}
	}
	for _, err := range look() {
		require.ErrorContains(t, err, "Options.Cache.MaxOpenFiles (1)")
		require.True(t, errors.Is(err, sstable.ErrReaderClosed))
	}
	closed = true
	for _, err := range look() {
		require.Equal(t, base.ErrClosed, err)
	}
}
