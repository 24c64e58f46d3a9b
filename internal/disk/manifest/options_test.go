package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

// allOptions has another value than the default for each option.
func allOptions() Options {
	return Options{
		ChangeBytes: 1 << 30, ChangeAge: 86400e9, Compression: 3, LevelCompression: []Compression{1, 0, 2},
		TableSize: 8 << 20, BlockSize: 8 << 10, RestartInterval: 8,
		Filters: []NamedFilter{{"sievedb.BinaryFuse8", 0}, {"leveldb.BuiltinBloomFilter2", 12}}, FilterBudget: 1 << 20,
		MaxWastedReads: 0.02, ForGoleveldb: true, RangeFilters: []NamedFilter{{"sievedb.PrefixBloom.fixed:8", 10}},
		FileMode: 0o640, DiskReserve: -1,
	}
}

// A worked example of docs/format.md.
func TestTheBytesOfRecordedOptions(t *testing.T) {
	raw := hexVector(t, "testdata/options.hex")
	e := result.Of(DecodeEdit(raw))(t)
	var r Recorded
	r.Apply(e)
	o, unreadable := r.Options()
	require.Empty(t, unreadable)
	require.Equal(t, allOptions(), o)
	var again Edit
	r = new(Recorded).WithOptions(&o)
	r.AddTo(&again)
	require.Equal(t, raw, again.Encode(nil))
}

func TestEveryOptionIsReadAsItWasRecorded(t *testing.T) {
	all := allOptions()
	all.SeparateValues = 4096 // younger than the example
	r := (&Recorded{Time: 7}).WithOptions(&all)
	o, unreadable := r.Options()
	require.Empty(t, unreadable)
	require.Equal(t, all, o)
	require.EqualValues(t, 7, r.Time)
	var texts []string
	for _, option := range o.List() {
		texts = append(texts, option.Name+" "+option.Text)
	}
	require.Equal(t, []string{
		"Changes.Bytes 1073741824", "Changes.Age 24h0m0s", "Tables.Compression zstd", "Tables.LevelCompression none, default, snappy",
		"Tables.Size 8388608", "Tables.BlockSize 8192", "Tables.RestartInterval 8",
		"Filters.Policy sievedb.BinaryFuse8, leveldb.BuiltinBloomFilter2:12", "Filters.Budget 1048576", "Filters.MaxWastedReads 0.02",
		"Filters.ForGoleveldb true", "Filters.RangePolicies sievedb.PrefixBloom.fixed:8:10", "FileMode 0640", "Limits.DiskReserve -1",
		"Tables.SeparateValues 4096",
	}, texts)
	require.Len(t, texts, len(optionFields))
	require.Len(t, all.Compare(&Options{}), len(optionFields))
	require.Empty(t, all.Compare(&o))
	require.Equal(t, []OptionChange{{"Tables.Compression", "zstd", ""}}, (&Options{Compression: 3}).Compare(&Options{}))

	r = r.WithOptions(&Options{})
	require.Empty(t, r.optional, "defaults take no space")
	none := new(Recorded).WithOptions(&Options{})
	require.Empty(t, none.appendPointer(nil))
}

// What a later version records is neither lost nor mistaken for something else.
func TestOptionsOfALaterVersionStayAndAreReported(t *testing.T) {
	later := append(field(66, 9), field(71, 1, 'x')...) // a compression of its own, and a list in another form
	later = append(append(later, field(72, 0x80)...), field(1000, 1, 2)...)
	var r Recorded
	p := recordedPointer(later)
	require.NoError(t, r.apply(p.Level, p.Key))
	o, unreadable := r.Options()
	require.Equal(t, Options{}, o)
	require.Equal(t, []UnreadableOption{
		{66, "Tables.Compression", []byte{9}}, {71, "Filters.Policy", []byte{1, 'x'}}, {72, "Filters.Budget", []byte{0x80}}, {1000, "", []byte{1, 2}},
	}, unreadable)
	changed := r.WithOptions(&Options{TableSize: 2})
	require.Equal(t, append(field(68, 4), field(1000, 1, 2)...), changed.optional)
}

func TestTheNextEditRecordsOtherOptions(t *testing.T) {
	mem := vfs.NewMem()
	s := beginSet(t, testSet(mem))
	all := allOptions()
	s.RecordOptions(&all)
	recorded := func() Options {
		again, st, err := Load(testSet(mem.Crash()))
		require.NoError(t, err)
		require.NoError(t, again.Close())
		o, _ := st.Recorded.Options()
		return o
	}
	require.Equal(t, Options{}, recorded())
	require.NoError(t, s.Apply(&Edit{}, nil))
	require.Equal(t, all, recorded())
	s.RecordOptions(&Options{BlockSize: 64})
	require.NoError(t, s.Apply(&Edit{}, nil))
	require.Equal(t, Options{BlockSize: 64}, recorded())
	for range 2 { // defaults have no field, but the edit before has one
		s.RecordOptions(&Options{})
		require.NoError(t, s.Apply(&Edit{}, nil))
		require.Equal(t, Options{}, recorded())
	}
	nothing, ok := recordedNothing().Recorded()
	require.True(t, ok)
	require.True(t, nothing.isZero())
	require.NoError(t, s.Close())
}

// A terminal obeys control characters, and a name from a file may have them.
func TestNamesOfFiltersArePlainOrQuoted(t *testing.T) {
	o := Options{Filters: []NamedFilter{{"plain.name:1", 9}, {"\x1b[2Jname", 9}, {"\xff", 0}}}
	require.Equal(t, []Option{{"Filters.Policy", `plain.name:1:9, "\x1b[2Jname":9, "\xff"`}}, o.List())
}

func FuzzRecordedOptions(f *testing.F) {
	all := allOptions()
	seed := new(Recorded).WithOptions(&all)
	f.Add(seed.optional)
	f.Add(append(field(66, 9), field(1000, 1)...))
	f.Fuzz(func(t *testing.T, fields []byte) {
		r, err := decodeRecorded(fields)
		if err != nil {
			return
		}
		o, _ := r.Options()
		_ = o.List()
		written := r.WithOptions(&o)
		again, unreadable := written.Options()
		require.Empty(t, o.Compare(&again), "what is accepted is written back")
		for _, u := range unreadable {
			require.Empty(t, u.Name)
		}
	})
}
