package tables

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/limit/share"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/sstable"
)

// separatedShelf has entries of which each third has a value in a value table, in one table of the last level.
type separatedShelf struct {
	*shelf
	v       *version.Version
	entries []itertest.Entry
	table   *version.FileMeta
	values  *version.FileMeta
}

func newSeparatedShelf(t *testing.T) *separatedShelf {
	s := &separatedShelf{shelf: newShelf(t, 100), entries: numbered(0, 90, 1)}
	w := s.writer()
	w.options.Separate = 100
	require.True(t, w.Separates())
	for i := range s.entries {
		if e := &s.entries[i]; i%3 == 0 {
			e.Value = bytes.Repeat(e.Value, 100)
		}
		require.NoError(t, w.Add(s.entries[i].Key, s.entries[i].Value))
	}
	require.NoError(t, result.Err(w.Finish()))
	e := &manifest.Edit{}
	files := w.AddTo(e, version.NumLevels-1)
	require.Len(t, files, 2)
	s.table, s.values = files[0], files[1]
	none := version.New(base.Bytewise, new(version.Owner))
	require.NoError(t, s.cache.CountRefs(none, e, s.dir.Logger))
	require.Equal(t, []version.ValueDelta{{ID: s.values.Num, File: s.values.Num, Live: 30 * 300}}, e.Values)
	s.v = result.Of(none.Apply(e.Change()))(t)
	return s
}

// refs returns the encoded references by user key, and the number of all entries of the table.
func (s *separatedShelf) refs(t *testing.T) (refs map[string][]byte, entries int) {
	refs = map[string][]byte{}
	it := NewLevelIter(s.cache, base.Bytewise, []*version.FileMeta{s.table}, sstable.IterOptions{})
	for ok := it.First(); ok; ok = it.Next() {
		if _, kind := base.SplitTrailer(base.Trailer(it.Key())); kind == base.KindRef {
			refs[string(base.UserKey(it.Key()))] = bytes.Clone(it.Value())
		}
		entries++
	}
	require.NoError(t, it.Close())
	return refs, entries
}

func TestSeparatedValuesAreFoundByTheirReferences(t *testing.T) {
	s := newSeparatedShelf(t)
	refs, n := s.refs(t)
	require.Equal(t, len(s.entries), n)
	require.Len(t, refs, 30)
	require.True(t, s.cache.HasRefs(s.table))
	require.NoError(t, s.cache.CheckIDs(s.v, s.values))
	var lk sstable.Lookup
	defer lk.Release()
	copied := s.writer().ForValues([]uint64{s.values.Num})
	for i := 0; i < n; i += 3 {
		user, want := base.UserKey(s.entries[i].Key), s.entries[i].Value
		encoded := refs[string(user)]
		require.Equal(t, want, result.Of(s.cache.Value(s.v, &lk, user, encoded))(t))
		require.Equal(t, want, result.Of(s.cache.TryValue(s.v, &lk, user, encoded))(t).Value)
		ref := result.Of(base.DecodeValueRef(encoded))(t)
		require.NoError(t, s.cache.HasValue(s.v, &lk, user, ref))
		stored, value, err := s.cache.StoredValue(s.v, &lk, user, ref, copied)
		require.NoError(t, err)
		if stored != nil {
			require.NoError(t, copied.AddStored(s.entries[i].Key, stored, ref.Len))
		} else {
			require.Equal(t, want, value)
			require.NoError(t, copied.Add(s.entries[i].Key, value))
		}
	}

	// A collection that copies them to another table changes no reference.
	files := result.Of(copied.Finish())(t)
	moved := version.Change{
		Deleted: []version.DeletedFile{{Level: version.ValuesLevel, Num: s.values.Num}},
		Added:   []version.LevelFile{{Level: version.ValuesLevel, File: files[0]}},
		Values:  []version.ValueDelta{{ID: s.values.Num, File: files[0].Num}},
	}
	v := result.Of(s.v.Apply(moved))(t)
	require.NoError(t, s.cache.CheckIDs(v, files[0]))
	for user, encoded := range refs {
		want := result.Of(s.cache.Value(s.v, &lk, []byte(user), encoded))(t)
		want = bytes.Clone(want)
		require.Equal(t, want, result.Of(s.cache.Value(v, &lk, []byte(user), encoded))(t))
	}
}

func TestReferencesToOtherValuesAreCorruption(t *testing.T) {
	s := newSeparatedShelf(t)
	refs, _ := s.refs(t)
	user := base.UserKey(s.entries[3].Key)
	right := result.Of(base.DecodeValueRef(refs[string(user)]))(t)
	other := s.write(t, numbered(200, 210, 1), 10)[0]
	mistaken := result.Of(s.v.Apply(version.Change{ // a table of a level has the place of a value table
		Added:  []version.LevelFile{{Level: version.ValuesLevel, File: other}},
		Values: []version.ValueDelta{{ID: 70, File: other.Num, Live: 1}},
	}))(t)
	for name, c := range map[string]struct {
		user []byte
		ref  base.ValueRef
		says string
	}{
		"an ID that no table has":  {user, base.ValueRef{ID: 60, Seq: right.Seq, Len: right.Len}, "ID 60, of which the MANIFEST has none"},
		"another sequence number":  {user, base.ValueRef{ID: right.ID, Seq: right.Seq + 1, Len: right.Len}, "no value of sequence number"},
		"a key without a value":    {base.UserKey(s.entries[4].Key), right, "no value of sequence number"},
		"another length":           {user, base.ValueRef{ID: right.ID, Seq: right.Seq, Len: right.Len - 1}, "has 300 bytes; want 299"},
		"a table that has no such": {user, base.ValueRef{ID: 70, Seq: right.Seq, Len: right.Len}, "no value of sequence number"},
	} {
		t.Run(name, func(t *testing.T) {
			var lk sstable.Lookup
			defer lk.Release()
			err := result.Err(s.cache.Value(mistaken, &lk, c.user, c.ref.Append(nil)))
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, c.says)
			require.ErrorIs(t, result.Err(s.cache.TryValue(mistaken, &lk, c.user, c.ref.Append(nil))), base.ErrCorruption)
		})
	}
	require.ErrorContains(t, s.cache.CheckIDs(mistaken, other), "does not say that it is a value table")
	var lk sstable.Lookup
	defer lk.Release()
	require.ErrorIs(t, result.Err(s.cache.Value(s.v, &lk, user, []byte{1})), base.ErrCorruption)
	require.ErrorIs(t, result.Err(s.cache.TryValue(s.v, &lk, user, []byte{1})), base.ErrCorruption)

	// The file of a value table that has the name of another.
	Of(s.values).ids.Store(&[]uint64{right.ID + 1})
	err := s.cache.HasValue(s.v, &lk, user, right)
	require.ErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "the file may have got the name of another")
	_, _, err = s.cache.StoredValue(s.v, &lk, user, right, s.writer())
	require.ErrorIs(t, err, base.ErrCorruption)
}

func TestRemovedTablesTakeTheirReferencesWithThem(t *testing.T) {
	s := newSeparatedShelf(t)
	removed := func() *manifest.Edit {
		return &manifest.Edit{Deleted: []version.DeletedFile{{Level: version.NumLevels - 1, Num: s.table.Num}}}
	}
	gone := []version.ValueDelta{{ID: s.values.Num, Live: -30 * 300}}
	for range 2 { // what was learned is used once
		s.cache.LearnRefs(s.v, s.table)
		e := removed()
		require.NoError(t, s.cache.CountRefs(s.v, e, s.dir.Logger))
		require.Equal(t, gone, e.Values)
	}
	moved := removed()
	moved.Added = []version.LevelFile{{Level: 2, File: s.table}}
	require.NoError(t, s.cache.CountRefs(s.v, moved, s.dir.Logger))
	require.Empty(t, moved.Values, "it still has them")

	// Another table that refers to more than the MANIFEST counts is removed, and the values stay.
	less := result.Of(s.v.Apply(version.Change{Values: []version.ValueDelta{{ID: s.values.Num, Live: -1}}}))(t)
	var logged bytes.Buffer
	e := removed()
	require.NoError(t, s.cache.CountRefs(less, e, slog.New(slog.NewTextHandler(&logged, nil))))
	require.Empty(t, e.Values)
	require.Contains(t, logged.String(), "a damaged table is removed")

	s.cache.Drop(s.table)
	s.dir.Remove(s.dir.File(base.FileTable, s.table.Num))
	require.True(t, s.cache.HasRefs(s.table), "who asks meets the error")
	require.ErrorIs(t, s.cache.CountRefs(s.v, removed(), s.dir.Logger), os.ErrNotExist)
}

// Iterators read what a transaction has written, also after its end.
func TestPrivateTablesStayUntilTheirLastReference(t *testing.T) {
	s := newShelf(t, 100)
	p := NewPrivate(s.cache, s.dir)
	private := func(from, to, step int, value string) {
		w := s.writer()
		w.options.Kind = base.FileTemp
		for _, e := range numbered(from, to, step) {
			require.NoError(t, w.Add(e.Key, []byte(value)))
		}
		p.Add(result.Of(w.Finish())(t)[0])
	}
	private(0, 30, 2, "first")
	early := p.Runs()
	private(40, 60, 2, "first") // behind the one before
	require.Len(t, p.Runs(), 1)
	require.Len(t, early[0], 1, "runs do not change")
	private(10, 50, 2, "second")
	require.Len(t, p.Runs(), 2)
	require.Len(t, p.Files(), 3)
	var lk sstable.Lookup
	defer lk.Release()
	find := func(runs PrivateRuns, i int) string {
		lk.Init(base.UserKey(numbered(i, i+1, 1)[0].Key), base.MaxSeq)
		return string(result.Of(runs.Find(s.cache, &lk))(t).Value)
	}
	for i, want := range map[int]string{0: "first", 8: "first", 9: "", 10: "second", 48: "second", 50: "first", 60: ""} {
		require.Equal(t, want, find(p.Runs(), i), i)
	}
	require.Equal(t, "first", find(early, 10))
	require.Empty(t, find(early, 40))

	require.False(t, p.Shared())
	p.Ref()
	require.True(t, p.Shared())
	p.Unref() // the transaction ends
	m, levels := new(MergingIter), make([]LevelIter, 2)
	p.Runs().AddTo(m, s.cache, levels, &sstable.IterOptions{})
	m.Init(base.Bytewise)
	n := 0
	for ok := m.First(); ok; ok = m.Next() {
		n++
	}
	require.NoError(t, m.Close())
	require.Equal(t, 15+10+20, n)
	require.Len(t, result.Of(s.dir.FS.List(s.dir.Path))(t), 3)
	p.Unref()
	require.Empty(t, result.Of(s.dir.FS.List(s.dir.Path))(t))

	p = NewPrivate(s.cache, s.dir)
	private(0, 30, 2, "kept")
	f := p.Files()[0]
	p.Release()
	published := Published(f, f.Num)
	require.False(t, published.Temporary)
	require.Equal(t, f.Counts(), published.Counts())
	p.Unref()
	require.Len(t, result.Of(s.dir.FS.List(s.dir.Path))(t), 1, "the file belongs to who released it")
}

func TestTablesThatWereNotUsedLatelyAreClosedForMemory(t *testing.T) {
	s := newShelf(t, 100)
	files := s.write(t, numbered(0, 600, 1), 20)
	o := s.cache.options
	o.Memory = share.NewTableMemory(1, 0, false)
	c := NewCache(o)
	defer c.Close()
	held := result.Of(c.Ref(files[0]))(t)
	for _, f := range files {
		require.NoError(t, c.OpenWhole(f))
	}
	require.False(t, c.HasRoom())
	open := 0
	for _, f := range files {
		if Of(f).Peek() != nil {
			open++
		}
	}
	require.Equal(t, LeastOpen+2, open, "and the one that is held, and the one that was opened last")
	require.NotNil(t, Of(files[0]).Peek())
	require.EqualValues(t, len(files)-open, c.Memory().Closed)
	held.Unref()
}
