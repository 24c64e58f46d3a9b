package vfs

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomFile makes a file of n random bytes, which are then in the page cache, and opens it.
func randomFile(t *testing.T, dir string, n int) (f File, data []byte) {
	name := filepath.Join(dir, "source")
	data = make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(data)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	f, err := OS.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f, data
}

func TestUncachedWritesAreWrites(t *testing.T) {
	dir := t.TempDir()
	_, data := randomFile(t, dir, 3<<20+17)
	name := filepath.Join(dir, "f")
	f, err := OS.Create(name)
	require.NoError(t, err)
	o := f.(*osFile)
	for at, i := 0, 0; at < len(data); i++ {
		o.uncached = i%3 != 0
		n, err := f.Write(data[at:min(at+100_001, len(data))])
		require.NoError(t, err)
		at += n
	}
	o.uncached = true
	n, err := f.Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	_, err = f.Write(data[:1])
	require.ErrorIs(t, err, fs.ErrClosed)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

// If writes cannot bypass the page cache, they are ordinary writes. (/dev/full fails both kinds.)
func TestUncachedWritesFailLikeOthers(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Log("no /dev/full here: ", err)
		return
	}
	o := &osFile{f: full, uncached: true}
	n, err := o.Write([]byte("x"))
	require.ErrorContains(t, err, "no space left")
	require.Zero(t, n)
	require.NoError(t, o.Close())
}

func TestCachedFilesStayCached(t *testing.T) {
	dir := t.TempDir()
	src, data := randomFile(t, dir, 1<<20)
	f, err := OS.Create(filepath.Join(dir, "f"))
	require.NoError(t, err)
	defer f.Close()
	f.(CacheFollower).FollowCache(src)
	require.False(t, f.(*osFile).uncached, "its %d bytes were just written", len(data))
	f.(CacheFollower).FollowCache(nil)
	require.False(t, f.(*osFile).uncached)
	f.(CacheFollower).FollowCache(struct{ File }{src})
	require.False(t, f.(*osFile).uncached, "nothing is known about another kind of file")
	require.NoError(t, src.Close())
	f.(CacheFollower).FollowCache(src)
	require.False(t, f.(*osFile).uncached, "nor about a closed file")
}

// Whether the file system shares bytes or not, the file has the right bytes.
func TestSharedBytesAreTheSourcesBytes(t *testing.T) {
	dir := t.TempDir()
	src, data := randomFile(t, dir, 5*shareUnit/2)
	for _, n := range []int{0, 1, shareUnit - 1, shareUnit, 2*shareUnit + 3, len(data)} {
		name := filepath.Join(dir, "f")
		f, err := Replace(OS, name)
		require.NoError(t, err)
		shared, err := f.(Sharer).ShareFrom(src, int64(n))
		require.NoError(t, err)
		require.Contains(t, []int64{0, int64(n / shareUnit * shareUnit)}, shared)
		_, err = f.Write(data[shared:])
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), "%d of %d bytes shared", shared, n)
	}
	f, err := OS.Create(filepath.Join(dir, "other"))
	require.NoError(t, err)
	defer f.Close()
	shared, err := f.(Sharer).ShareFrom(struct{ File }{src}, shareUnit)
	require.NoError(t, err)
	require.Zero(t, shared, "a file of an unknown kind")
	shared, err = src.(Sharer).ShareFrom(f, shareUnit)
	require.NoError(t, err)
	require.Zero(t, shared, "a file from Open is not written")
}
