package backuptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
)

// list returns the objects with that prefix as sorted lines of name and size.
func list(t *testing.T, s backup.Storage, prefix string) (lines []string) {
	t.Helper()
	for o, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		lines = append(lines, fmt.Sprint(o.Name, " ", o.Size))
	}
	slices.Sort(lines)
	return lines
}

func content(t *testing.T, s backup.Storage, name string) string {
	t.Helper()
	o, err := s.Open(t.Context(), name)
	require.NoError(t, err)
	b, err := io.ReadAll(o)
	require.NoError(t, err)
	require.NoError(t, o.Close())
	return string(b)
}

// Run checks that a storage does what backup.Storage says. open returns the same empty storage each time,
// as two machines would see it.
func Run(t *testing.T, open func(t *testing.T) backup.Storage) {
	t.Run("one of several creators succeeds", func(t *testing.T) { raceCreators(t, open) })
	RunOneByOne(t, open)
}

func raceCreators(t *testing.T, open func(t *testing.T) backup.Storage) {
	var group sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		group.Go(func() { results[i] = open(t).Create(t.Context(), "raced", strings.NewReader(fmt.Sprint(i))) })
	}
	group.Wait()
	winner := slices.Index(results, nil)
	require.GreaterOrEqual(t, winner, 0)
	require.Equal(t, fmt.Sprint(winner), content(t, open(t), "raced"))
	for i, err := range results {
		if i != winner {
			require.ErrorIs(t, err, fs.ErrExist)
		}
	}
	require.NoError(t, open(t).Delete(t.Context(), "raced"))
}

// RunOneByOne is Run for a storage that may let two calls of Create succeed at the same time.
func RunOneByOne(t *testing.T, open func(t *testing.T) backup.Storage) {
	ctx := t.Context()
	s, other := open(t), open(t)
	require.Empty(t, list(t, s, ""))
	_, err := s.Open(ctx, "a/one")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.Delete(ctx, "a/one"))

	large := bytes.Repeat([]byte("0123456789"), 100_000)
	require.NoError(t, s.Create(ctx, "a/one", strings.NewReader("first")))
	require.NoError(t, s.Create(ctx, "a/two", bytes.NewReader(large)))
	require.NoError(t, s.Create(ctx, "ab/three-20260101T000000.000000000Z-0123456789abcdef", strings.NewReader("")))
	require.NoError(t, s.Create(ctx, "FORMAT", iotest.OneByteReader(strings.NewReader("text"))))
	for _, s := range []backup.Storage{s, other} {
		require.Equal(t, "first", content(t, s, "a/one"))
		require.Equal(t, string(large), content(t, s, "a/two"))
		require.Equal(t, []string{"a/one 5", "a/two 1000000"}, list(t, s, "a/"))
		require.Equal(t, []string{"a/one 5", "a/two 1000000", "ab/three-20260101T000000.000000000Z-0123456789abcdef 0"}, list(t, s, "a"))
		require.Equal(t, []string{"a/one 5"}, list(t, s, "a/o"))
		require.Len(t, list(t, s, ""), 4)
		require.Empty(t, list(t, s, "b/"))
	}
	for range s.List(ctx, "") { // a loop may end early
		break
	}

	t.Run("an existing object is not changed", func(t *testing.T) {
		require.ErrorIs(t, other.Create(ctx, "a/one", strings.NewReader("second")), fs.ErrExist)
		require.Equal(t, "first", content(t, s, "a/one"))
	})
	t.Run("a reader that fails makes no object", func(t *testing.T) {
		broken := errors.New("broken")
		r := io.MultiReader(bytes.NewReader(large), iotest.ErrReader(broken))
		require.ErrorIs(t, s.Create(ctx, "a/three", r), broken)
		require.NotContains(t, fmt.Sprint(list(t, s, "a/")), "three")
		require.NoError(t, s.Create(ctx, "a/three", strings.NewReader("now")))
	})
	t.Run("a done context makes no object", func(t *testing.T) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, s.Create(done, "a/four", bytes.NewReader(large)), context.Canceled)
		require.NotContains(t, fmt.Sprint(list(t, s, "a/")), "four")
	})
	t.Run("a deleted object is gone", func(t *testing.T) {
		for _, name := range []string{"a/one", "a/two", "a/three", "FORMAT"} {
			require.NoError(t, other.Delete(ctx, name))
			_, err := s.Open(ctx, name)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		require.Empty(t, list(t, s, "a/"))
	})
}
