package manifest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// valueTable describes a value table with that many bytes of values.
func valueTable(num, bytes uint64) *FileMeta {
	f := file(num, "a", "z", bytes/2)
	f.SetValueBytes(bytes)
	return f
}

// valueEdit has each field about value tables.
func valueEdit() *Edit {
	return &Edit{
		Deleted: []DeletedFile{{ValuesLevel, 5}, {1, 6}},
		Added:   []LevelFile{{ValuesLevel, valueTable(7, 1000)}, {0, file(8, "a", "b", 10)}},
		Values:  []ValueDelta{{7, 7, 1000}, {3, 0, -70}, {4, 7, 0}, {9, 1, math.MinInt64}, {10, 2, math.MaxInt64}},
	}
}

func TestEditsOfValueTablesDecodeToThemselves(t *testing.T) {
	e := valueEdit()
	got := result.Of(DecodeEdit(e.Encode(nil)))(t)
	require.Equal(t, e, got)
	record := (&Edit{Deleted: []DeletedFile{{ValuesLevel, 5}}, Values: []ValueDelta{{3, 7, -2}}}).Encode(nil)
	require.Equal(t, []byte{11, 5, 12, 3, 7, 3}, record, "the format never changes")
	record = (&Edit{Added: []LevelFile{{ValuesLevel, valueTable(7, 4)}}}).Encode(nil)
	require.Equal(t, []byte{10, 4, 7, 2, 9, 'a', 1, 1}, record[:8])
	require.ErrorIs(t, result.Err(DecodeEdit([]byte{12, 0, 7, 3})), base.ErrCorruption)
}

func TestTheBytesOfAnEditOfValueTables(t *testing.T) {
	raw := hexVector(t, "testdata/values.hex")
	values := NewFileMeta(13, 1000, ikey("a", 1), ikey("a", 1))
	values.SetValueBytes(4000)
	table := NewFileMeta(14, 300, base.AppendInternalKey(nil, []byte("a"), 1, base.KindRef), ikey("b", 2))
	want := &Edit{
		Deleted: []DeletedFile{{ValuesLevel, 5}},
		Added:   []LevelFile{{0, table}, {ValuesLevel, values}},
		Values:  []ValueDelta{{13, 13, 4000}, {4, 11, 0}, {5, 0, -1000}},
	}
	got := result.Of(DecodeEdit(raw))(t)
	require.Equal(t, want, got)
	require.Equal(t, raw, want.Encode(nil))
}

// valueTables returns which IDs each value table has, with their live bytes.
func valueTables(v *Version) map[uint64]map[uint64]uint64 {
	tables := map[uint64]map[uint64]uint64{}
	for _, t := range v.Values {
		if tables[t.File.Num] == nil {
			tables[t.File.Num] = map[uint64]uint64{}
		}
		tables[t.File.Num][t.ID] = t.Live
	}
	return tables
}

func TestValueTablesLiveAsLongAsTablesReferToThem(t *testing.T) {
	var obsolete []uint64
	mem := vfs.NewMem()
	o := testSet(mem)
	o.Obsolete = func(gone []LevelFile) {
		for _, f := range gone {
			obsolete = append(obsolete, f.File.Num)
		}
	}
	s := beginSet(t, o)
	requireTables := func(want map[uint64]map[uint64]uint64, gone ...uint64) {
		t.Helper()
		require.Equal(t, want, valueTables(s.Current()))
		require.Equal(t, gone, obsolete)
		obsolete = nil
		for _, fs := range []vfs.FS{mem, mem.Crash()} {
			again, _, err := Load(testSet(fs))
			require.NoError(t, err)
			require.Equal(t, want, valueTables(again.Current()))
			all := 0
			again.Current().AllFiles(func(level int, f *FileMeta) {
				if level == ValuesLevel {
					require.NotZero(t, f.ValueBytes())
				}
				all++
			})
			require.Equal(t, len(files(s.Current()))+len(want), all)
		}
	}
	a, b, x := s.NewFileNum(), s.NewFileNum(), s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{
		Added:  []LevelFile{{0, file(x, "a", "z", 10)}, {ValuesLevel, valueTable(a, 100)}, {ValuesLevel, valueTable(b, 200)}},
		Values: []ValueDelta{{a, a, 100}, {b, b, 200}},
	}, nil))
	requireTables(map[uint64]map[uint64]uint64{a: {a: 100}, b: {b: 200}})
	require.NoError(t, s.Apply(&Edit{Values: []ValueDelta{{a, 0, -60}, {b, 0, -150}}}, nil))
	requireTables(map[uint64]map[uint64]uint64{a: {a: 40}, b: {b: 50}})

	old := s.RefCurrent()
	c := s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{
		Added: []LevelFile{{ValuesLevel, valueTable(c, 90)}}, Values: []ValueDelta{{a, c, 0}, {b, c, -10}},
	}, nil))
	requireTables(map[uint64]map[uint64]uint64{c: {a: 40, b: 40}})
	require.Equal(t, c, s.Current().ValueTableOf(a).Num)
	require.Equal(t, a, old.ValueTableOf(a).Num, "a reader of the old version needs the old tables")
	require.Nil(t, s.Current().ValueTableOf(c))
	old.Unref()
	requireTables(map[uint64]map[uint64]uint64{c: {a: 40, b: 40}}, a, b)

	require.NoError(t, s.Apply(&Edit{Values: []ValueDelta{{a, 0, -40}}}, nil))
	requireTables(map[uint64]map[uint64]uint64{c: {b: 40}})
	require.NoError(t, s.Apply(&Edit{Deleted: []DeletedFile{{0, x}}, Values: []ValueDelta{{b, 0, -40}}}, nil))
	requireTables(map[uint64]map[uint64]uint64{}, x, c)
}

// All that a collection found may have died when its edit is applied.
func TestACollectionOfWhatHasDiedAddsNothing(t *testing.T) {
	s := beginSet(t, testSet(vfs.NewMem()))
	a, b := s.NewFileNum(), s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{Added: []LevelFile{{ValuesLevel, valueTable(a, 100)}}, Values: []ValueDelta{{a, a, 100}}}, nil))
	require.NoError(t, s.Apply(&Edit{Values: []ValueDelta{{a, 0, -100}}}, nil))
	e := &Edit{Added: []LevelFile{{ValuesLevel, valueTable(b, 100)}}, Values: []ValueDelta{{a, b, 0}}}
	require.NoError(t, s.Apply(e, nil))
	require.Empty(t, e.Added)
	require.Empty(t, valueTables(s.Current()))
	require.Zero(t, s.Current().ValueTableCount())
}

func TestVersionsWhoseValuesDoNotAddUpAreRefused(t *testing.T) {
	none := newVersion(base.Bytewise, new(Owner))
	v, err := none.Apply(Change{
		Added: []LevelFile{{ValuesLevel, valueTable(3, 100)}, {0, file(4, "a", "b", 1)}}, Values: []ValueDelta{{3, 3, 100}},
	})
	require.NoError(t, err)
	for name, e := range map[string]Change{
		"less than nothing lives":          {Values: []ValueDelta{{3, 0, -101}}},
		"too much lives":                   {Values: []ValueDelta{{3, 0, math.MaxInt64}}},
		"an ID without a table":            {Values: []ValueDelta{{9, 0, 5}}},
		"the table of an ID is missing":    {Values: []ValueDelta{{9, 8, 5}}},
		"the table of an ID is another":    {Values: []ValueDelta{{3, 4, 5}}},
		"a table in use is removed":        {Deleted: []DeletedFile{{ValuesLevel, 3}}},
		"a table without an ID":            {Added: []LevelFile{{ValuesLevel, valueTable(5, 1)}}},
		"a table that loses its only ID":   {Values: []ValueDelta{{3, 0, -100}}},
		"one number on a level and beside": {Added: []LevelFile{{2, file(3, "a", "b", 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, result.Err(v.Apply(e)), base.ErrCorruption)
			_, err := none.Apply(Change{Added: []LevelFile{{ValuesLevel, valueTable(3, 100)}}, Values: []ValueDelta{{3, 3, 100}}}, e)
			require.ErrorIs(t, err, base.ErrCorruption)
		})
	}
}
