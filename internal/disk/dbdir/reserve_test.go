package dbdir

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func TestAReserveIsMadeFreedAndMadeAgain(t *testing.T) {
	full := false
	mem := vfs.NewMem()
	fsys := wrap.NewFaulty(mem, wrap.FailIf(syscall.ENOSPC, func(op wrap.Op) bool {
		return full && op.Kind == wrap.OpWrite
	}))
	require.NoError(t, mem.MkdirAll("db"))
	size := func() int64 {
		info, err := mem.Stat("db/RESERVE")
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return 0
		}
		return info.Size()
	}
	running := func() bool { return false }
	r := ReserveFor(fsys, "db", 300_000, 0)
	require.False(t, r.Free())
	full = true
	require.ErrorIs(t, r.Keep(0, running), syscall.ENOSPC)
	require.Zero(t, size())
	full = false
	for range 2 {
		require.NoError(t, r.Keep(0, running))
		require.Equal(t, int64(300_000), size())
		require.NoError(t, ReserveFor(fsys, "db", 300_000, 0).Keep(0, running))
		require.False(t, r.Used())
		require.True(t, r.Free())
		require.True(t, r.Used())
		require.False(t, r.Due(0))
		require.NoError(t, r.Keep(0, running))
		require.Zero(t, size(), "it is not wanted again yet")
		r.WantAgain()
	}
	require.True(t, r.Due(0))
	require.NoError(t, r.Keep(0, func() bool { return true }))
	require.Zero(t, size(), "the store closes")
	require.NoError(t, r.Keep(0, running))
	require.False(t, r.Due(0))
	r = ReserveFor(fsys, "db", 100, 0) // another size
	require.NoError(t, r.Keep(0, running))
	require.Equal(t, int64(100), size())
	require.NoError(t, RemoveReserve(fsys, "db"))
	require.Zero(t, size())
	require.NoError(t, RemoveReserve(fsys, "db"), "again")
	none := ReserveFor(fsys, "db", -1, 0)
	require.Nil(t, none)
	none.WantAgain()
	none.Freed()
	require.False(t, none.Due(1<<40))
	require.NoError(t, none.Keep(1<<40, running))
	require.False(t, none.Free())
	require.Zero(t, none.Size())
}

// By default there is a reserve while the tables are large against it.
func TestTheDefaultReserveFollowsTheTables(t *testing.T) {
	mem := with(t)
	running := func() bool { return false }
	r := ReserveFor(mem, "db", 0, 24<<20)
	require.Equal(t, int64(25<<20), r.Size())
	for _, step := range []struct {
		tables    uint64
		due, made bool
	}{{0, false, false}, {400<<20 - 1, false, false}, {400 << 20, true, true}, {400 << 20, false, true}, {200 << 20, false, true}, {200<<20 - 1, true, false}, {0, false, false}} {
		require.Equal(t, step.due, r.Due(step.tables), step)
		require.NoError(t, r.Keep(step.tables, running))
		_, err := mem.Stat("db/RESERVE")
		require.Equal(t, step.made, err == nil, step)
	}
	r.Freed()
	require.False(t, r.Due(1<<40))
}

// An attempt fills what is left of the disk, so each next one comes later.
func TestFailedReservesAreTriedLessOften(t *testing.T) {
	mem := with(t)
	r := ReserveFor(wrap.NewFaulty(mem, wrap.FailFrom(0, syscall.ENOSPC)), "db", 100, 0)
	var attempts []int
	for i := range 40 {
		if r.Due(0) {
			attempts = append(attempts, i)
			require.ErrorIs(t, r.Keep(0, func() bool { return false }), syscall.ENOSPC)
		}
	}
	require.Equal(t, []int{0, 2, 6, 14, 30}, attempts)
	r.WantAgain()
	require.True(t, r.Due(0))
}

// smallDisk is a file system with little space.
type smallDisk struct {
	vfs.FS
	free uint64
}

func (d *smallDisk) FreeBytes(string) (uint64, error) { return d.free, nil }

// An attempt to make the reserve used the rest of a disk for a moment, in which other writes failed.
func TestAReserveIsNotMadeOnADiskThatIsNearlyFull(t *testing.T) {
	mem := with(t)
	disk := &smallDisk{FS: wrap.NewFaulty(mem, wrap.FailFrom(0, syscall.EIO)), free: 199}
	r := ReserveFor(disk, "db", 100, 0)
	running := func() bool { return false }
	require.ErrorContains(t, r.Keep(0, running), "199 bytes are free, want at least 200")
	disk.free = 200
	require.ErrorIs(t, r.Keep(0, running), syscall.EIO)
	disk.FS = mem
	require.NoError(t, r.Keep(0, running))
	require.False(t, r.Due(0))
}
