package vfs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func newMappedLog(t testing.TB) (m *mappedLog, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	f, err := CreateLog(OS, path)
	require.NoError(t, err)
	m, ok := f.(*mappedLog)
	require.True(t, ok, "the file system of the temporary directory is not one of those that keep what they reserve")
	t.Cleanup(func() { _ = m.Close() })
	return m, path
}

func TestAMappedLogHasWhatWasWrittenAndThenZeros(t *testing.T) {
	m, path := newMappedLog(t)
	var want []byte
	for i := range 3000 {
		p := bytes.Repeat([]byte{byte(i%255 + 1)}, i%700)
		want = append(want, p...)
		n, err := m.Write(p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(got, want))
	require.Empty(t, bytes.TrimRight(got[len(want):], "\x00"))
	require.NoError(t, m.Sync())
	require.NoError(t, m.Close())
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestAMappedLogThatWasCutIsAnError(t *testing.T) {
	m, path := newMappedLog(t)
	_, err := m.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 0))
	_, err = m.Write(make([]byte, 100))
	require.ErrorIs(t, err, errLogFault)
	_, err = m.Write([]byte("b"))
	require.ErrorIs(t, err, errLogFault)
}

func BenchmarkLogWrite(b *testing.B) {
	p := bytes.Repeat([]byte("x"), 130)
	b.Run("mapped", func(b *testing.B) {
		m, _ := newMappedLog(b)
		b.SetBytes(130)
		for b.Loop() {
			if m.size.Load() > 32<<20 {
				b.StopTimer()
				m.Close()
				m, _ = newMappedLog(b)
				b.StartTimer()
			}
			if _, err := m.Write(p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		f, err := OS.Create(filepath.Join(b.TempDir(), "log"))
		require.NoError(b, err)
		for b.Loop() {
			if _, err := f.Write(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
