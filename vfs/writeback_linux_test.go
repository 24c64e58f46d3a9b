//go:build !arm

package vfs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
)

func TestStartWritingChangesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f := result.Of(OS.Create(name))(t)
	want := bytes.Repeat([]byte("early"), 100_000)
	result.Of(f.Write(want))(t)
	early := f.(EarlyWriter)
	for _, r := range [][2]int64{{0, 300_000}, {300_000, 0}, {0, 1 << 40}, {-1, 5}, {1 << 50, 1}} {
		early.StartWriting(r[0], r[1])
	}
	result.Of(f.Write([]byte("more")))(t)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	early.StartWriting(0, 10) // no effect on a closed file
	got := result.Of(os.ReadFile(name))(t)
	require.True(t, bytes.Equal(append(want, "more"...), got))
}

func TestWhatIsMappedIsWrittenWhenItIsNotAnyMore(t *testing.T) {
	m, _ := newMappedLog(t)
	begin := func() int64 {
		size := m.size.Load()
		m.StartWriting(size-10, 10) // as if all before was begun
		return m.begun.Load()
	}
	m.StartWriting(0, 10)
	require.Zero(t, m.begun.Load(), "nothing is reserved")
	appendTo(t, m, 5000, 'a')
	require.Zero(t, begin())
	appendTo(t, m, minReserve, 'a')
	require.Equal(t, m.windowAt, begin())
	require.Positive(t, m.windowAt)
	appendTo(t, m, 100, 'a')
	require.Equal(t, m.windowAt, begin())
	require.NoError(t, m.Cut())
	require.Equal(t, m.size.Load(), begin())

	m, _ = newMappedLog(t)
	require.NoError(t, m.usePlain())
	appendTo(t, m, 100, 'a')
	require.EqualValues(t, 100, begin())
}
