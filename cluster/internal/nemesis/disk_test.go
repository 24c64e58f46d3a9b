package nemesis

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// disk is the disk of a node in memory.
type disk struct {
	mem  *vfs.Mem
	full atomic.Bool
}

// fs returns the file system that a node uses until it dies.
func (d *disk) fs() vfs.FS {
	return wrap.NewFaulty(d.mem, func(op wrap.Op) *wrap.Fault {
		if d.full.Load() && (op.Kind == wrap.OpWrite || op.Kind == wrap.OpCreate) {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
}

// free is node.SpaceOptions.Free.
func (d *disk) free(string) (int64, error) {
	if d.full.Load() {
		return 0, nil
	}
	return 1 << 40, nil
}

// files returns the files below a directory, in an order.
func (d *disk) files(dir string) (all []string) {
	names, err := d.mem.List(dir)
	if err != nil {
		return nil
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := d.mem.Stat(path); err == nil && info.IsDir() {
			all = append(all, d.files(path)...)
		} else {
			all = append(all, path)
		}
	}
	return all
}

// flip changes one bit of a file that has any.
func (d *disk) flip(name string, rnd *rand.Rand) error {
	f, err := d.mem.Open(name)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil || size == 0 {
		return errors.Join(err, f.Close())
	}
	data := make([]byte, size)
	_, err = vfs.ReadFull(f, data, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	data[rnd.IntN(len(data))] ^= 1 << rnd.IntN(8)
	if err := d.mem.Remove(name); err != nil {
		return err
	}
	g, err := d.mem.Create(name)
	if err != nil {
		return err
	}
	_, err = g.Write(data)
	return errors.Join(err, g.Sync(), g.Close())
}

// damage flips a bit in some files of a node's state or of its log. It returns their names.
func (d *disk) damage(dir string, rnd *rand.Rand, count int) (damaged []string, err error) {
	files := slices.DeleteFunc(d.files(dir), func(name string) bool {
		ext := filepath.Ext(name)
		return ext != ".ldb" && ext != ".sst" && ext != ".log" || strings.Contains(name, ".damaged")
	})
	for range min(count, len(files)) {
		i := rnd.IntN(len(files))
		if err := d.flip(files[i], rnd); err != nil {
			return damaged, err
		}
		damaged = append(damaged, files[i])
		files = slices.Delete(files, i, i+1)
	}
	return damaged, nil
}

func TestDamageFlipsOneBitOfAFile(t *testing.T) {
	d := &disk{mem: vfs.NewMem()}
	require.NoError(t, d.mem.MkdirAll("/n/log"))
	f, err := d.mem.Create("/n/log/000001.log")
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	names, err := d.damage("/n", rand.New(rand.NewPCG(1, 1)), 3)
	require.NoError(t, err)
	require.Equal(t, []string{"/n/log/000001.log"}, names)
	g, err := d.mem.Open("/n/log/000001.log")
	require.NoError(t, err)
	data := make([]byte, 100)
	_, err = vfs.ReadFull(g, data, 0)
	require.NoError(t, err)
	bits := 0
	for _, b := range data {
		for ; b != 0; b &= b - 1 {
			bits++
		}
	}
	require.Equal(t, 1, bits)
	require.NoError(t, g.Close())
}

func TestAFullDiskFailsWritesOnly(t *testing.T) {
	d := &disk{mem: vfs.NewMem()}
	fs := d.fs()
	require.NoError(t, fs.MkdirAll("/n"))
	f, err := fs.Create("/n/f")
	require.NoError(t, err)
	d.full.Store(true)
	_, err = f.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = fs.List("/n")
	require.NoError(t, err)
	d.full.Store(false)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
