package vfs

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPrefetchedFilesBecomeResident(t *testing.T) {
	f, data := randomFile(t, t.TempDir(), 1<<20+5000)
	p := f.(Prefetcher)
	size := int64(len(data))
	fd := f.(*osFile)
	cached, _, ok := p.Resident(0, size)
	if !ok {
		_, err := fd.cacheStat(0, size)
		require.Error(t, err)
		t.Log("this system cannot say what is in the page cache: ", err)
	}
	require.True(t, !ok || cached == size, "of %d bytes just written, %d are cached", size, cached)
	fd.control(func(fd int) {
		_ = unix.Fsync(fd)
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) // has no effect in tmpfs
	})
	p.Prefetch(0, size)
	p.Prefetch(size, 1<<40) // nothing is there
	p.Prefetch(-5, 3)
	got := make([]byte, size)
	_, err := f.ReadAt(got, 0) // waits for what was requested
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	cached, _, again := p.Resident(0, size)
	require.Equal(t, ok, again)
	require.True(t, !ok || cached == size, "%d of %d bytes are cached", cached, size)
	part, _, _ := p.Resident(1<<20, 1000)
	require.True(t, !ok || part == 1000, "%d of 1000 bytes are cached", part)
}

func TestResidentRejectsRangesAndClosedFiles(t *testing.T) {
	f, _ := randomFile(t, t.TempDir(), 5000)
	p := f.(Prefetcher)
	for _, r := range [][2]int64{{-1, 5}, {0, 0}, {0, -1}} {
		_, _, ok := p.Resident(r[0], r[1])
		require.False(t, ok, r)
	}
	require.NoError(t, f.Close())
	_, _, ok := p.Resident(0, 5000)
	require.False(t, ok)
	p.Prefetch(0, 5000)
	_, err := f.ReadAt(make([]byte, 1), 0)
	require.NotErrorIs(t, err, io.EOF)
	require.Error(t, err)
}
