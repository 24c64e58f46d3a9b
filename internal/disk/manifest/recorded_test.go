package manifest

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

func recordedPointer(fields []byte) CompactPointer {
	key := base.AppendInternalKey(nil, append([]byte(recordedPrefix), fields...), 0, base.KindDelete)
	return CompactPointer{Level: recordedLevel, Key: key}
}

func field(tag uint32, payload ...byte) []byte {
	return util.AppendLengthPrefixed(util.AppendUvarint32(nil, tag), payload)
}

// A worked example of docs/format.md.
func TestTheBytesOfARecord(t *testing.T) {
	raw := hexVector(t, "testdata/recorded.hex")
	e := result.Of(DecodeEdit(raw))(t)
	var r Recorded
	r.Apply(e)
	require.Equal(t, Recorded{Time: 1_700_000_000_000, Prefixes: [][]byte{[]byte("cache/"), []byte("session/")}}, r)
	var again Edit
	r.AddTo(&again)
	require.Equal(t, raw, again.Encode(nil))
}

func TestWhatIsRecordedGoesThroughEditsAndNewManifests(t *testing.T) {
	for _, cmp := range []*base.Comparer{base.Bytewise, {Name: "test.order", Compare: base.Bytewise.Compare}} {
		mem := vfs.NewMem()
		o, now := testSet(mem), uint64(500)
		o.Cmp, o.Clock = cmp, func() uint64 { return now }
		load := func(want uint64, prefixes ...string) *Set {
			t.Helper()
			other := testSet(mem.Crash())
			other.Cmp = cmp
			again, st, err := Load(other)
			require.NoError(t, err)
			require.Equal(t, want, st.Recorded.Time)
			require.Len(t, st.Recorded.Prefixes, len(prefixes))
			for i, prefix := range prefixes {
				require.Equal(t, prefix, string(st.Recorded.Prefixes[i]))
			}
			require.Equal(t, st.Recorded, again.Recorded())
			return again
		}
		require.NoError(t, beginSet(t, o).Close())
		require.NoError(t, load(0).Close(), "no value expires")
		again := load(0)
		again.opts.FS, again.opts.Clock = mem, o.Clock
		again.RecordPrefixes([][]byte{[]byte("a"), []byte("b")})
		require.NoError(t, again.Begin(&Edit{}, nil))
		load(500, "a", "b")
		now = 1000
		load(500, "a", "b")
		require.NoError(t, again.Apply(&Edit{}, nil))
		now = 700
		require.NoError(t, again.Apply(&Edit{}, nil))
		next := load(1000, "a", "b")
		require.NoError(t, again.Close())
		next.opts.FS = mem // an opening without a clock
		require.NoError(t, next.Begin(&Edit{}, nil))
		require.NoError(t, next.Apply(&Edit{}, nil))
		require.NoError(t, next.Close())
		load(1000, "a", "b")
	}
}

// Versions before this record wrote the time only, in a form of its own.
func TestARecordOfAnEarlierVersionHasUnknownPrefixes(t *testing.T) {
	user := binary.LittleEndian.AppendUint64([]byte(earlierRecordPrefix), 77)
	p := CompactPointer{Level: recordedLevel, Key: base.AppendInternalKey(nil, user, 0, base.KindDelete)}
	var r Recorded
	require.False(t, r.PrefixesUnknown())
	require.NoError(t, r.apply(p.Level, p.Key))
	require.Equal(t, Recorded{Time: 77}, r)
	require.True(t, r.PrefixesUnknown())
	r.Prefixes = [][]byte{{}}
	require.False(t, r.PrefixesUnknown(), "all keys")
	for _, other := range []CompactPointer{
		{Level: 5, Key: p.Key}, {Level: 6, Key: base.AppendInternalKey(nil, []byte(earlierRecordPrefix), 0, base.KindSet)},
		{Level: 6, Key: base.AppendInternalKey(nil, []byte("other key of 21 bytes"), 0, base.KindSet)},
		{Level: 5, Key: recordedPointer(field(3)).Key},
	} {
		var none Recorded
		require.NoError(t, none.apply(other.Level, other.Key))
		require.Equal(t, Recorded{}, none, "LevelDB's own pointers")
	}
}

// A later version may record more. What an older one must know has a low tag.
func TestUnknownFieldsOfARecordAreRefusedOrKept(t *testing.T) {
	kept := append(field(firstOptional, 1, 2, 3), field(1000)...)
	var r Recorded
	p := recordedPointer(append(field(recordedTime, 9, 0, 0, 0, 0, 0, 0, 0), kept...))
	require.NoError(t, r.apply(p.Level, p.Key))
	require.EqualValues(t, 9, r.Time)
	require.Equal(t, []CompactPointer{p}, r.appendPointer(nil))

	_, err := DecodeEdit((&Edit{CompactPointers: []CompactPointer{recordedPointer(field(firstOptional - 1))}}).Encode(nil))
	require.ErrorIs(t, err, base.ErrNewer)
	require.NotErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "field 63 of what is recorded about the database is unknown")
	for want, fields := range map[string][]byte{
		"the recorded time has 7 bytes, want 8":        field(recordedTime, 1, 2, 3, 4, 5, 6, 7),
		"exceeds its end":                              field(firstOptional, 1, 2)[:3],
		"field 64 after field 64":                      append(field(firstOptional), field(firstOptional)...),
		"field 0 after field 0":                        field(0),
		"the list of expiry prefixes is empty":         field(recordedPrefixes),
		"an expiry prefix exceeds the end of its list": field(recordedPrefixes, 2, 'a'),
		"one begins with another":                      field(recordedPrefixes, 1, 'a', 2, 'a', 'b'),
		"are not in order":                             field(recordedPrefixes, 1, 'b', 1, 'a'),
		"has 65537 bytes, want at most 65536":          field(recordedPrefixes, make([]byte, MaxPrefixBytes+1)...),
	} {
		_, err := DecodeEdit((&Edit{CompactPointers: []CompactPointer{recordedPointer(fields)}}).Encode(nil))
		require.ErrorIs(t, err, base.ErrCorruption)
		require.ErrorContains(t, err, want)
	}
}

func FuzzDecodeRecorded(f *testing.F) {
	f.Add(field(recordedTime, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(field(recordedPrefixes, 0))
	f.Add(append(field(recordedPrefixes, 1, 'a', 1, 'b'), field(firstOptional, 1)...))
	f.Fuzz(func(t *testing.T, fields []byte) {
		r, err := decodeRecorded(fields)
		p := recordedPointer(fields)
		_, editErr := DecodeEdit((&Edit{CompactPointers: []CompactPointer{p}}).Encode(nil))
		require.Equal(t, err == nil, editErr == nil)
		if err != nil {
			return
		}
		var again Recorded
		for _, p := range r.appendPointer(nil) {
			require.NoError(t, again.apply(p.Level, p.Key))
		}
		require.Equal(t, r, again, "what is accepted is written back")
	})
}
