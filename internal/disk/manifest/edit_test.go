package manifest

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
)

func ikey(user string, seq uint64) []byte {
	return base.AppendInternalKey(nil, []byte(user), seq, base.KindSet)
}

// hexVector reads annotated hex: each line has bytes in hexadecimal and, after #, their meaning.
// file describes a table of the given user keys.
func file(num uint64, smallest, largest string, size uint64) *version.FileMeta {
	return version.NewFileMeta(num, size, ikey(smallest, 1), ikey(largest, 1))
}

func hexVector(t *testing.T, path string) []byte {
	text := result.Of(os.ReadFile(path))(t)
	var b []byte
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, "#")
		bytes, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		require.NoError(t, err, line)
		b = append(b, bytes...)
	}
	return b
}

func TestEditVectorRoundTrips(t *testing.T) {
	want := &Edit{
		Comparer: base.Bytewise.Name, LogNum: Num(9), PrevLogNum: Num(0), NextFileNum: Num(300), LastSeq: Num(70000),
		CompactPointers: []CompactPointer{{Level: 1, Key: ikey("m", 5)}},
		Deleted:         []version.DeletedFile{{Level: 2, Num: 7}},
		Added:           []version.LevelFile{{Level: 3, File: version.NewFileMeta(12, 2097152, ikey("a", 1), ikey("k", 2))}},
	}
	raw := hexVector(t, "testdata/edit.hex")
	got := result.Of(DecodeEdit(raw))(t)
	require.Equal(t, want, got)
	require.Equal(t, raw, got.Encode(nil))
}

func TestDamagedEditsAreCorruption(t *testing.T) {
	added := (&Edit{Added: []version.LevelFile{{Level: 1, File: version.NewFileMeta(1, 2, ikey("a", 1), ikey("b", 1))}}}).Encode(nil)
	cases := map[string][]byte{
		"tag cut off":              {0x80},
		"level out of range":       {tagDeletedFile, version.NumLevels, 1},
		"number cut off":           {tagLogNum, 0xff},
		"number above the bound":   {tagLogNum, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"sequence above 2^56":      {tagLastSeq, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02},
		"comparator too long":      append([]byte{tagComparer, 0x81, 0x10}, bytes.Repeat([]byte{'x'}, 2049)...),
		"empty comparator":         {tagComparer, 0},
		"key without a trailer":    {tagCompactPointer, 1, 3, 'a', 'b', 'c'},
		"key of an unknown kind":   append([]byte{tagCompactPointer, 1, 9, 'a'}, 77, 0, 0, 0, 0, 0, 0, 0),
		"new file without its end": added[:len(added)-1],
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, result.Err(DecodeEdit(raw)), base.ErrCorruption)
		})
	}
}

// An edit of a later version was corruption, with the advice to repair.
func TestEditsOfALaterVersionAreNewer(t *testing.T) {
	begin := (&Edit{LogNum: Num(5), PrevLogNum: Num(0)}).Encode(nil)
	for name, field := range map[string][]byte{
		"tag 8": {8}, "tag 13": {13, 1}, "tag 99": {99}, "tag 300": {0xac, 2},
		"key of a reserved kind": append([]byte{tagCompactPointer, 1, 9, 'a'}, 7, 0, 0, 0, 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeEdit(append(bytes.Clone(begin), field...))
			var n *base.NewerError
			require.ErrorAs(t, err, &n)
			require.GreaterOrEqual(t, n.Offset, int64(len(begin)))
			require.ErrorIs(t, err, base.ErrNewer)
			require.NotErrorIs(t, err, base.ErrCorruption)
		})
	}
}

// Values at the bounds are accepted.
func TestNumbersAndNamesAtTheirBounds(t *testing.T) {
	longest := strings.Repeat("x", 1024)
	for _, e := range []*Edit{
		{Comparer: longest}, {LastSeq: Num(base.MaxSeq)},
		{LogNum: Num(maxFileNum), PrevLogNum: Num(maxFileNum), NextFileNum: Num(maxFileNum)},
		{Deleted: []version.DeletedFile{{Level: version.NumLevels - 1, Num: maxFileNum}}},
	} {
		got := result.Of(DecodeEdit(e.Encode(nil)))(t)
		require.Equal(t, e, got)
	}
	for _, e := range []*Edit{
		{Comparer: longest + "x"}, {LastSeq: Num(base.MaxSeq + 1)},
		{LogNum: Num(maxFileNum + 1)}, {PrevLogNum: Num(maxFileNum + 1)}, {NextFileNum: Num(maxFileNum + 1)},
		{Deleted: []version.DeletedFile{{Level: version.NumLevels + 1, Num: 1}}}, {Deleted: []version.DeletedFile{{Num: maxFileNum + 1}}},
	} {
		require.ErrorIs(t, result.Err(DecodeEdit(e.Encode(nil))), base.ErrCorruption)
	}
}

func TestDamagedEditErrorHasTheOffset(t *testing.T) {
	_, err := DecodeEdit(append((&Edit{LogNum: Num(5), PrevLogNum: Num(0)}).Encode(nil), tagDeletedFile))
	var c *base.CorruptionError
	require.ErrorAs(t, err, &c)
	require.EqualValues(t, 5, c.Offset)
}

func FuzzDecodeEdit(f *testing.F) {
	f.Add((&Edit{Comparer: "c", LogNum: Num(1), Deleted: []version.DeletedFile{{Level: 1, Num: 2}}}).Encode(nil))
	f.Add((&Edit{Added: []version.LevelFile{{Level: 6, File: version.NewFileMeta(1, 2, ikey("", 0), ikey("b", base.MaxSeq))}}}).Encode(nil))
	f.Add(valueEdit().Encode(nil))
	f.Add([]byte{tagCompactPointer, 1, 8, 1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := DecodeEdit(raw)
		if err != nil {
			require.ErrorIs(t, err, base.ErrCorruption)
			return
		}
		again := result.Of(DecodeEdit(e.Encode(nil)))(t)
		require.Equal(t, e, again)
	})
}
