package base

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/util"
)

func TestReferencesToValuesDecodeToThemselves(t *testing.T) {
	for _, r := range []ValueRef{{ID: 1}, {1, 2, 3}, {MaxFileNum, MaxSeq, maxRefLen}, {300, 70_000, 16 << 10}} {
		got, err := DecodeValueRef(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, got)
		for n := range len(r.Append(nil)) {
			_, err = DecodeValueRef(r.Append(nil)[:n])
			require.ErrorIs(t, err, ErrCorruption)
		}
		_, err = DecodeValueRef(append(r.Append(nil), 0))
		require.ErrorIs(t, err, ErrCorruption)
	}
	require.Equal(t, []byte{5, 0x80, 1, 7}, ValueRef{5, 128, 7}.Append(nil), "the format never changes")
	for _, r := range []ValueRef{{}, {MaxFileNum + 1, 1, 1}, {1, MaxSeq + 1, 1}, {1, 1, maxRefLen + 1}} {
		_, err := DecodeValueRef(r.Append(nil))
		require.ErrorIs(t, err, ErrCorruption)
	}
}

func FuzzDecodeValueRef(f *testing.F) {
	f.Add([]byte{5, 0x80, 1, 7})
	f.Add(ValueRef{MaxFileNum, MaxSeq, maxRefLen}.Append(nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeValueRef(data)
		if err != nil {
			require.ErrorIs(t, err, ErrCorruption)
			return
		}
		again, err := DecodeValueRef(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func TestListsOfReferencesDecodeToThemselves(t *testing.T) {
	sums := []RefSum{{1, 5}, {4, 128}, {MaxFileNum, 1 << 62}}
	got, err := DecodeRefSums(AppendRefSums(nil, sums), "")
	require.NoError(t, err)
	require.Equal(t, sums, got)
	require.Equal(t, []byte{1, 5, 3, 0x80, 1}, AppendRefSums(nil, sums[:2]), "the format never changes")
	ids := []uint64{3, 4, 700, MaxFileNum}
	gotIDs, err := DecodeIDs(AppendIDs(nil, ids), "")
	require.NoError(t, err)
	require.Equal(t, ids, gotIDs)
	require.Equal(t, []byte{2, 3, 1}, AppendIDs(nil, ids[:2]))
	for _, bad := range [][]byte{{1}, {0, 5}, {1, 5, 0, 5}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		_, err := DecodeRefSums(bad, "")
		require.ErrorIs(t, err, ErrCorruption)
	}
	for _, bad := range [][]byte{nil, {2, 1}, {1, 0}, {1, 0x80}, append([]byte{2, 1}, util.AppendUvarint64(nil, MaxFileNum)...)} {
		_, err := DecodeIDs(bad, "")
		require.ErrorIs(t, err, ErrCorruption)
	}
}

func FuzzListsOfReferences(f *testing.F) {
	f.Add([]byte{1, 5, 3, 0x80, 1})
	f.Add([]byte{0, 5})
	f.Add([]byte{2, 3, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if sums, err := DecodeRefSums(data, ""); err == nil {
			require.LessOrEqual(t, 2*len(sums), len(data))
			again, err := DecodeRefSums(AppendRefSums(nil, sums), "")
			require.NoError(t, err)
			require.Equal(t, sums, again)
		}
		if ids, err := DecodeIDs(data, ""); err == nil {
			require.LessOrEqual(t, len(ids), len(data))
			again, err := DecodeIDs(AppendIDs(nil, ids), "")
			require.NoError(t, err)
			require.Equal(t, ids, again)
		}
	})
}
