package vfs

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

// randomFile makes a file of n random bytes, which are then in the page cache, and opens it.
func randomFile(t *testing.T, dir string, n int) (f File, data []byte) {
	name := filepath.Join(dir, "source")
	data = make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(data)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	f = result.Of(OS.Open(name))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f, data
}

func TestUncachedWritesAreWrites(t *testing.T) {
	dir := t.TempDir()
	_, data := randomFile(t, dir, 3<<20+17)
	name := filepath.Join(dir, "f")
	f := result.Of(OS.Create(name))(t)
	o := f.(*osFile)
	for at, i := 0, 0; at < len(data); i++ {
		o.uncached = i%3 != 0
		n := result.Of(f.Write(data[at:min(at+100_001, len(data))]))(t)
		at += n
	}
	o.uncached = true
	n := result.Of(f.Write(nil))(t)
	require.Zero(t, n)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.ErrorIs(t, result.Err(f.Write(data[:1])), fs.ErrClosed)
	got := result.Of(os.ReadFile(name))(t)
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
	f := result.Of(OS.Create(filepath.Join(dir, "f")))(t)
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
		f := result.Of(Replace(OS, name))(t)
		shared := result.Of(f.(Sharer).ShareFrom(src, int64(n)))(t)
		require.Contains(t, []int64{0, int64(n / shareUnit * shareUnit)}, shared)
		result.Of(f.Write(data[shared:]))(t)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		got := result.Of(os.ReadFile(name))(t)
		require.True(t, bytes.Equal(data, got), "%d of %d bytes shared", shared, n)
	}
	f := result.Of(OS.Create(filepath.Join(dir, "other")))(t)
	defer f.Close()
	shared := result.Of(f.(Sharer).ShareFrom(struct{ File }{src}, shareUnit))(t)
	require.Zero(t, shared, "a file of an unknown kind")
	shared = result.Of(src.(Sharer).ShareFrom(f, shareUnit))(t)
	require.Zero(t, shared, "a file from Open is not written")
}
