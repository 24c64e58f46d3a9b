package vfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/test/result"
	"golang.org/x/sys/windows"
)

// openAsOthers makes two files and opens the second as package os does, so that nobody can replace it.
func openAsOthers(t *testing.T) (from, to string, reader *os.File) {
	t.Helper()
	dir := t.TempDir()
	from, to = filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.WriteFile(from, []byte("from"), 0o600))
	require.NoError(t, os.WriteFile(to, []byte("to"), 0o600))
	reader := result.Of(os.Open(to))(t)
	t.Cleanup(func() { reader.Close() })
	return from, to, reader
}

// replaceSleep calls slept instead of a sleep, until the end of the test.
func replaceSleep(t *testing.T, slept func(time.Duration)) {
	t.Helper()
	old := sleep
	sleep = slept
	t.Cleanup(func() { sleep = old })
}

func TestRenameWaitsUntilAReaderIsClosed(t *testing.T) {
	from, to, reader := openAsOthers(t)
	times := 0
	replaceSleep(t, func(time.Duration) {
		if times++; times == 3 {
			require.NoError(t, reader.Close())
		}
	})
	require.NoError(t, OS.Rename(from, to))
	require.Equal(t, 3, times)
	content := result.Of(os.ReadFile(to))(t)
	require.Equal(t, "from", string(content))
}

func TestRenameWaitsHalfASecondForAReader(t *testing.T) {
	from, to, reader := openAsOthers(t)
	var total time.Duration
	replaceSleep(t, func(d time.Duration) { total += d })
	require.True(t, inUse(OS.Rename(from, to), to))
	require.Equal(t, 511*time.Millisecond, total)
	require.NoError(t, reader.Close())
	for _, name := range []string{from, to} {
		content := result.Of(os.ReadFile(name))(t)
		require.Equal(t, filepath.Base(name), string(content))
	}
}

func TestRenameToADirectoryFailsAtOnce(t *testing.T) {
	from, _, _ := openAsOthers(t)
	dir := t.TempDir()
	replaceSleep(t, func(time.Duration) { t.Error("waits") })
	require.Error(t, OS.Rename(from, dir))
	require.Error(t, OS.Rename(filepath.Join(dir, "absent"), from))
}

// IsWine reports whether the tests run under Wine.
func IsWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
