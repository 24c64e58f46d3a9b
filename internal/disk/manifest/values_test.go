package manifest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// valueTable describes a value table with that many bytes of values.
func valueTable(num, bytes uint64) *version.FileMeta {
	f := file(num, "a", "z", bytes/2)
	f.SetValueBytes(bytes)
	return f
}

// addedValues describes the addition of one.
func addedValues(num, bytes uint64) version.LevelFile {
	return version.LevelFile{Level: version.ValuesLevel, File: valueTable(num, bytes)}
}

// valueEdit has each field about value tables.
func valueEdit() *Edit {
	return &Edit{
		Deleted: []version.DeletedFile{{Level: version.ValuesLevel, Num: 5}, {Level: 1, Num: 6}},
		Added:   []version.LevelFile{addedValues(7, 1000), {Level: 0, File: file(8, "a", "b", 10)}},
		Values: []version.ValueDelta{
			{ID: 7, File: 7, Live: 1000}, {ID: 3, Live: -70}, {ID: 4, File: 7},
			{ID: 9, File: 1, Live: math.MinInt64}, {ID: 10, File: 2, Live: math.MaxInt64},
		},
	}
}

func TestEditsOfValueTablesDecodeToThemselves(t *testing.T) {
	e := valueEdit()
	got := result.Of(DecodeEdit(e.Encode(nil)))(t)
	require.Equal(t, e, got)
	record := (&Edit{
		Deleted: []version.DeletedFile{{Level: version.ValuesLevel, Num: 5}},
		Values:  []version.ValueDelta{{ID: 3, File: 7, Live: -2}},
	}).Encode(nil)
	require.Equal(t, []byte{11, 5, 12, 3, 7, 3}, record, "the format never changes")
	record = (&Edit{Added: []version.LevelFile{addedValues(7, 4)}}).Encode(nil)
	require.Equal(t, []byte{10, 4, 7, 2, 9, 'a', 1, 1}, record[:8])
	require.ErrorIs(t, result.Err(DecodeEdit([]byte{12, 0, 7, 3})), base.ErrCorruption)
}

func TestTheBytesOfAnEditOfValueTables(t *testing.T) {
	raw := hexVector(t, "testdata/values.hex")
	values := version.NewFileMeta(13, 1000, ikey("a", 1), ikey("a", 1))
	values.SetValueBytes(4000)
	table := version.NewFileMeta(14, 300, base.AppendInternalKey(nil, []byte("a"), 1, base.KindRef), ikey("b", 2))
	want := &Edit{
		Deleted: []version.DeletedFile{{Level: version.ValuesLevel, Num: 5}},
		Added:   []version.LevelFile{{Level: 0, File: table}, {Level: version.ValuesLevel, File: values}},
		Values:  []version.ValueDelta{{ID: 13, File: 13, Live: 4000}, {ID: 4, File: 11}, {ID: 5, Live: -1000}},
	}
	got := result.Of(DecodeEdit(raw))(t)
	require.Equal(t, want, got)
	require.Equal(t, raw, want.Encode(nil))
}

// valueTables returns which IDs each value table has, with their live bytes.
func valueTables(v *version.Version) map[uint64]map[uint64]uint64 {
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
	o.Obsolete = func(gone []version.LevelFile) {
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
			again.Current().AllFiles(func(level int, f *version.FileMeta) {
				if level == version.ValuesLevel {
					require.NotZero(t, f.ValueBytes())
				}
				all++
			})
			require.Equal(t, len(files(s.Current()))+len(want), all)
		}
	}
	a, b, x := s.NewFileNum(), s.NewFileNum(), s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{
		Added:  []version.LevelFile{{Level: 0, File: file(x, "a", "z", 10)}, addedValues(a, 100), addedValues(b, 200)},
		Values: []version.ValueDelta{{ID: a, File: a, Live: 100}, {ID: b, File: b, Live: 200}},
	}, nil))
	requireTables(map[uint64]map[uint64]uint64{a: {a: 100}, b: {b: 200}})
	require.NoError(t, s.Apply(&Edit{Values: []version.ValueDelta{{ID: a, Live: -60}, {ID: b, Live: -150}}}, nil))
	requireTables(map[uint64]map[uint64]uint64{a: {a: 40}, b: {b: 50}})

	old := s.RefCurrent()
	c := s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{
		Added: []version.LevelFile{addedValues(c, 90)}, Values: []version.ValueDelta{{ID: a, File: c}, {ID: b, File: c, Live: -10}},
	}, nil))
	requireTables(map[uint64]map[uint64]uint64{c: {a: 40, b: 40}})
	require.Equal(t, c, s.Current().ValueTableOf(a).Num)
	require.Equal(t, a, old.ValueTableOf(a).Num, "a reader of the old version needs the old tables")
	require.Nil(t, s.Current().ValueTableOf(c))
	old.Unref()
	requireTables(map[uint64]map[uint64]uint64{c: {a: 40, b: 40}}, a, b)

	require.NoError(t, s.Apply(&Edit{Values: []version.ValueDelta{{ID: a, Live: -40}}}, nil))
	requireTables(map[uint64]map[uint64]uint64{c: {b: 40}})
	require.NoError(t, s.Apply(&Edit{
		Deleted: []version.DeletedFile{{Level: 0, Num: x}}, Values: []version.ValueDelta{{ID: b, Live: -40}},
	}, nil))
	requireTables(map[uint64]map[uint64]uint64{}, x, c)
}

// All that a collection found may have died when its edit is applied.
func TestACollectionOfWhatHasDiedAddsNothing(t *testing.T) {
	s := beginSet(t, testSet(vfs.NewMem()))
	a, b := s.NewFileNum(), s.NewFileNum()
	require.NoError(t, s.Apply(&Edit{
		Added: []version.LevelFile{addedValues(a, 100)}, Values: []version.ValueDelta{{ID: a, File: a, Live: 100}},
	}, nil))
	require.NoError(t, s.Apply(&Edit{Values: []version.ValueDelta{{ID: a, Live: -100}}}, nil))
	e := &Edit{Added: []version.LevelFile{addedValues(b, 100)}, Values: []version.ValueDelta{{ID: a, File: b}}}
	require.NoError(t, s.Apply(e, nil))
	require.Empty(t, e.Added)
	require.Empty(t, valueTables(s.Current()))
	require.Zero(t, s.Current().ValueTableCount())
}
