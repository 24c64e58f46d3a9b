package manifest

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

func TestCloseMarkVector(t *testing.T) {
	want := hexVector(t, "testdata/closed.hex")
	mark := CloseMark{Log: FileMark{12, 70000, 0x04030201}, Manifest: FileMark{11, 300, 0x08070605}, Begin: 0x0c0b0a09, LastSeq: 1000}
	require.Equal(t, want, mark.Encode())
	got := result.Of(DecodeCloseMark(want))(t)
	require.Equal(t, mark, got)
}

// FuzzDecodeCloseMark checks that only encoded marks are accepted.
func FuzzDecodeCloseMark(f *testing.F) {
	good := (&CloseMark{Log: FileMark{1, 2, 3}, Manifest: FileMark{4, 5, 6}}).Encode()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte{})
	f.Add((&CloseMark{Log: FileMark{1<<64 - 1, 1<<64 - 1, 1<<32 - 1}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		mark, err := DecodeCloseMark(b)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		require.Equal(t, b, mark.Encode())
	})
}

// A CLOSED of a later version was ignored as damaged, and then removed.
func TestACloseMarkOfALaterVersionIsNewer(t *testing.T) {
	later := util.AppendFixed32([]byte("sieveCL2more"), util.MaskCRC(util.CRC32C([]byte("sieveCL2more"))))
	_, err := DecodeCloseMark(later)
	require.ErrorIs(t, err, base.ErrNewer)
	require.NotErrorIs(t, err, base.ErrCorruption)
	later[9]++
	require.ErrorIs(t, result.Err(DecodeCloseMark(later)), base.ErrCorruption, "the checksum is wrong")
}

// A failed Install removes the temporary file if it made it and did not rename it, and no other.
func TestAFailedInstallOfACloseMarkRemovesOnlyItsOwnFile(t *testing.T) {
	for _, c := range []struct {
		kind    wrap.OpKind
		removes bool
	}{{wrap.OpCreate, false}, {wrap.OpWrite, true}, {wrap.OpSync, true}, {wrap.OpRename, true}, {wrap.OpSyncDir, false}} {
		removed := false
		fsys := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
			removed = removed || op.Kind == wrap.OpRemove
			if op.Kind == c.kind {
				return &wrap.Fault{Err: syscall.EIO}
			}
			return nil
		})
		require.ErrorIs(t, new(CloseMark).Install(fsys, ".", "000003.dbtmp"), syscall.EIO, c.kind)
		require.Equal(t, c.removes, removed, c.kind)
	}
}
