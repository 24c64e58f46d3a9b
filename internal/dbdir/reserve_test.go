package dbdir

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/vfs/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestAReserveIsMadeFreedAndMadeAgain(t *testing.T) {
	full := false
	mem := vfs.NewMem()
	fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if full && op.Kind == wrap.OpWrite {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	require.NoError(t, mem.MkdirAll("db"))
	size := func() int64 {
		info, err := mem.Stat("db/RESERVE")
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return 0
		}
		return info.Size()
	}
	r := NewReserve(fsys, "db", 300_000)
	require.False(t, r.Free())
	full = true
	require.ErrorIs(t, r.Make(), syscall.ENOSPC)
	require.Zero(t, size())
	full = false
	for range 2 {
		require.NoError(t, r.Make())
		require.Equal(t, int64(300_000), size())
		require.NoError(t, NewReserve(fsys, "db", 300_000).Make())
		require.True(t, r.Free())
		require.NoError(t, r.Make())
		require.Zero(t, size(), "it is not wanted again yet")
		r.WantAgain()
	}
	require.NoError(t, r.Make())
	r = NewReserve(fsys, "db", 100) // another size
	require.NoError(t, r.Make())
	require.Equal(t, int64(100), size())
	require.Nil(t, NewReserve(fsys, "db", 0))
	var none *Reserve
	none.WantAgain()
	require.NoError(t, none.Make())
	require.False(t, none.Free())
}

// Each flush wrote until the disk was full, and then removed the file: other writes failed meanwhile.
func TestAReserveWithoutRoomIsTriedMoreAndMoreSeldom(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	attempts, full := 0, true
	r := NewReserve(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if full && op.Kind == wrap.OpWrite {
			attempts++
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}), "db", 100)
	for range 1000 {
		_ = r.Make()
	}
	require.Equal(t, 10, attempts)
	full = false
	for range 1000 {
		require.NoError(t, r.Make())
	}
	require.True(t, r.Free())
	r.WantAgain()
	require.NoError(t, r.Make())
	require.True(t, r.Free())
}
