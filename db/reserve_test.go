package db_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/dbdir"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/vfs"
)

// A database that has filled its disk frees space by DeleteRange, also after it was opened again, and continues.
// Without the reserve, DeleteRange and Open fail with ErrNoSpace.
func TestDeleteRangeFreesSpaceOnAFullDisk(t *testing.T) { runReserve(t, simulatedDisk()) }

// reserveOptions have room in the reserve for the memtables.
func reserveOptions(disk fillDisk) *db.Options {
	fsys := disk.fs
	if fsys == nil {
		fsys = vfs.OS
	}
	return &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 256 << 10, MaxWaiting: 1},
		Tables: db.TableOptions{Size: 256 << 10, Compression: db.NoCompression}, Compaction: db.CompactionOptions{MaxLevelBase: 1 << 20},
		Limits: db.LimitOptions{DiskReserve: 2 << 20},
	}
}

// runReserve fills the disk and frees it, with the database open and after an opening.
func runReserve(t *testing.T, disk fillDisk) {
	o := reserveOptions(disk)
	reserve := filepath.Join(disk.dir, dbdir.ReserveName)
	r := &fillRun{disk: disk, rnd: rand.New(rand.NewPCG(1, 9)), model: oracle.NewPossible()}
	var err error
	r.d, err = db.Open(disk.dir, o)
	require.NoError(t, err)
	size := func() int64 {
		info, err := o.FS.Stat(reserve)
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
			return 0
		}
		return info.Size()
	}
	half := fillKey(fillKeys / 2)
	rounds := 2
	if raceEnabled {
		rounds = 1
	}
	for round := range rounds {
		eventually(t, func() bool {
			if size() == o.Limits.DiskReserve {
				return true
			}
			// The files that the deletion made unneeded may not have been removed at the last flush. A later one tries
			// again.
			require.NoError(t, r.insist(func() error { return r.d.Delete([]byte("other"), nil) }))
			require.NoError(t, r.insist(r.d.Flush))
			return false
		})
		require.NoError(t, r.untilFull())
		last := r.next - 6 // the last that was acknowledged at the latest
		if round > 0 {
			_ = r.d.Close() // its log may be cut
			r.d, err = db.Open(disk.dir, o)
			require.NoError(t, err)
		}
		require.NoError(t, r.d.DeleteRange(t.Context(), nil, half, nil))
		for key, err := range eachKey(r.d) {
			require.NoError(t, err)
			require.GreaterOrEqual(t, key, string(half))
			number := numberAt(t, r.d, key)
			require.NoError(t, r.model.Check(keyNumber(t, key), number))
		}
		require.NoError(t, r.insist(func() error { return r.d.DeleteRange(t.Context(), half, nil, nil) }))
		require.NoError(t, r.insist(func() error { return r.d.Put([]byte("other"), fillValue(last), nil) }))
		require.NoError(t, r.insist(r.d.Flush))
		waitUntilIdle(r.d)
		require.NoError(t, r.d.Delete([]byte("other"), nil))
		r.model = oracle.NewPossible()
	}
	require.NoError(t, r.d.Close())
	require.NoError(t, db.Destroy(disk.dir, o))
	_, err = o.FS.Stat(reserve)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Without an option, a small database has no reserve; a large one has, and frees space on a full disk with it. It goes
// with the data, and an opening without a reserve removes it.
func TestALargeDatabaseHasAReserveByDefault(t *testing.T) {
	const diskSize = 96 << 20
	disk := simulatedDiskOf(diskSize)
	o := reserveOptions(disk)
	o.Limits.DiskReserve, o.Memtables.Size = 0, 128<<10
	const want = 2*128<<10 + 1<<20
	reserve := filepath.Join("db", dbdir.ReserveName)
	made := func() bool {
		info, err := o.FS.Stat(reserve)
		return err == nil && info.Size() == want
	}
	d := openDir(t, "db", o)
	n := 0
	write := func() error { n++; return d.Put(fmt.Appendf(nil, "key%09d", n), make([]byte, 64<<10), db.NoSync) }
	for range 100 {
		require.NoError(t, write())
	}
	require.NoError(t, d.Flush())
	waitUntilIdle(d)
	_, err := o.FS.Stat(reserve)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for range 250 {
		require.NoError(t, write())
	}
	require.NoError(t, d.Flush())
	eventually(t, made)
	waitUntilIdle(d)
	checkpointTo(t, d, "copy")
	_, err = o.FS.Stat(filepath.Join("copy", dbdir.ReserveName))
	require.ErrorIs(t, err, fs.ErrNotExist)

	usage, err := d.DiskUsage()
	require.NoError(t, err)
	require.Greater(t, usage.Other, uint64(want))
	require.NoError(t, disk.ballast(diskSize-int(usage.Total)-1<<20))
	for err = nil; err == nil; err = write() {
	}
	require.ErrorIs(t, err, db.ErrNoSpace)
	require.NoError(t, d.DeleteRange(t.Context(), nil, nil, nil))
	eventually(t, func() bool { return d.Put([]byte("a"), nil, nil) == nil })
	require.NoError(t, d.Flush())
	eventually(t, func() bool { return !made() })
	require.NoError(t, d.Close())

	o.Limits.DiskReserve = want
	d = mustOpen(t, o)
	require.True(t, made())
	require.NoError(t, d.Close())
	require.NoError(t, db.Repair("db", o))
	require.True(t, made(), "Repair leaves it")
	o.Limits.DiskReserve = -1
	require.NoError(t, mustOpen(t, o).Close())
	_, err = o.FS.Stat(reserve)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// eachKey yields all keys.
func eachKey(d *db.DB) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		entries, failed := d.All(nil)
		for key := range entries {
			if !yield(string(key), nil) {
				return
			}
		}
		if err := failed(); err != nil {
			yield("", err)
		}
	}
}

func keyNumber(t *testing.T, key string) (n int) {
	_, err := fmt.Sscanf(key, "key%06d", &n)
	require.NoError(t, err)
	return n
}

func numberAt(t *testing.T, d *db.DB, key string) string {
	v, err := d.Get([]byte(key))
	require.NoError(t, err)
	return numberOf(v)
}
