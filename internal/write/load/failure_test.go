package load

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// run adds 300 entries to the load and commits it.
func run(l *Loader) error {
	for i := range 300 {
		if err := l.Add(base.KindSet, []byte{'k', byte(i >> 8), byte(i)}, make([]byte, 50)); err != nil {
			return err
		}
	}
	_, err := l.Commit()
	return err
}

func TestAnErrorAtEveryOperationOfALoadEndsItAndLeavesNoFile(t *testing.T) {
	counted := wrap.NewFaulty(newStore(t).fs, nil)
	require.NoError(t, run(newLoadOn(counted, &store{})))
	require.Greater(t, counted.Ops(), uint64(10))
	for n := range counted.Ops() {
		s := newStore(t)
		var failed wrap.OpKind
		l := newLoadOn(wrap.NewFaulty(s.fs, func(op wrap.Op) *wrap.Fault {
			if op.Index != n {
				return nil
			}
			failed = op.Kind
			return &wrap.Fault{Err: errFailed}
		}), s)
		err := run(l)
		if failed == wrap.OpClose && err == nil {
			require.NotNil(t, s.edit, "a synced file that fails to close is whole")
			continue
		}
		require.ErrorIs(t, err, errFailed, "operation %d, %v", n, failed)
		require.ErrorContains(t, err, "sievedb: load: ")
		require.Nil(t, s.edit)
		require.Empty(t, files(t, s.fs, ""), "operation %d, %v", n, failed)
		require.Equal(t, 1, s.ended)
	}
}

// newStore returns a store with an empty directory.
func newStore(t *testing.T) *store {
	s := &store{fs: vfs.NewMem()}
	require.NoError(t, vfs.MkdirAllSynced(s.fs, "dir"))
	return s
}

func TestALoadWithoutEntriesInstallsNothing(t *testing.T) {
	for name, end := range map[string]func(l *Loader) error{
		"commit":  func(l *Loader) error { info, err := l.Commit(); require.Nil(t, info); return err },
		"close":   (*Loader).Close,
		"give up": func(l *Loader) error { require.True(t, l.GiveUp(base.ErrClosed)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, l := newLoad(t)
			require.NoError(t, end(l))
			require.Empty(t, s.calls)
			require.Equal(t, 1, s.ended)
			require.Equal(t, base.ErrClosed, l.Add(base.KindSet, []byte("a"), nil))
			require.NoError(t, l.Close())
			require.Equal(t, 1, s.ended)
		})
	}
	s, l := newLoad(t)
	files, err := l.Name()
	require.NoError(t, err)
	require.Empty(t, files)
	require.Zero(t, l.Tables())
	require.Zero(t, s.nums)
}

func TestClosingALoadRemovesItsFiles(t *testing.T) {
	s, l := newLoad(t)
	add(t, l, 300)
	require.Positive(t, l.Tables())
	require.NoError(t, l.Close())
	require.Empty(t, files(t, s.fs, ""))
	require.Empty(t, s.calls)
}

func TestAPanicEndsTheLoadAndGoesOn(t *testing.T) {
	for _, call := range []string{"flush", "lead", "place", "install"} {
		t.Run(call, func(t *testing.T) {
			s, l := newLoad(t)
			add(t, l, 300)
			s.panics = call
			require.PanicsWithValue(t, "in "+call, func() { _, _ = l.Commit() })
			requirePanicked(t, s, l)
		})
	}
	t.Run("check", func(t *testing.T) {
		s, l := newLoad(t)
		add(t, l, 300)
		l.Check = func(_, _ []byte) error { panic("in check") }
		require.PanicsWithValue(t, "in check", func() { _ = l.Add(base.KindSet, []byte("z"), nil) })
		requirePanicked(t, s, l)
		require.Empty(t, files(t, s.fs, ""))
	})
}

// requirePanicked checks that the load has ended with the error of a panic.
func requirePanicked(t *testing.T, s *store, l *Loader) {
	require.Equal(t, 1, s.ended)
	_, err := l.Commit()
	var panicked *base.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, err, l.Add(base.KindSet, []byte("z"), nil))
	require.NoError(t, l.Close())
	require.Equal(t, 1, s.ended)
}

// A listener that is called during a commit must not wait for that commit.
func TestALoadRefusesCallsFromAListenerOfItsCommit(t *testing.T) {
	s, l := newLoad(t)
	listening := false
	l.InListener = func() bool { return listening }
	var add, closed error
	l.host = listener{s, func() {
		listening = true
		add, closed = l.Add(base.KindSet, []byte("z"), nil), l.Close()
		listening = false
	}}
	require.NoError(t, run(l))
	require.Equal(t, base.ErrInListener, add)
	require.Equal(t, base.ErrInListener, closed)
}

// listener is a store that calls a function when it is flushed.
type listener struct {
	*store
	call func()
}

func (l listener) Flush() error {
	l.call()
	return l.store.Flush()
}

// A load of many tables clears level 0 once more while no writer writes.
func TestALoadOfManyTablesDoesNotCrowdLevel0(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s, l := newLoad(t)
		l.TableSize = 1
		for i := range maxCrowd + 1 {
			require.NoError(t, l.Add(base.KindSet, []byte{'k', byte(i)}, nil))
		}
		led := &crowd{store: s, fails: fails}
		l.Compactor = led
		_, err := l.Commit()
		require.Equal(t, 2, led.cleared)
		if fails {
			require.ErrorIs(t, err, errFailed)
			require.Nil(t, s.edit)
			require.Empty(t, files(t, s.fs, ""))
			continue
		}
		require.NoError(t, err)
		require.Len(t, s.edit.Added, maxCrowd+1)
	}
}

// crowd is a Compactor that counts how often level 0 is cleared. The second time may fail.
type crowd struct {
	*store
	cleared int
	fails   bool
}

func (c *crowd) ClearLevel0(context.Context, []*manifest.FileMeta) error {
	if c.cleared++; c.fails && c.cleared == 2 {
		return errFailed
	}
	return nil
}

// Whether an edit that failed is in the MANIFEST is not known, so its tables stay.
func TestAFailedInstallLeavesTheTables(t *testing.T) {
	s, l := newLoad(t)
	s.fail = "install"
	require.ErrorIs(t, run(l), errFailed)
	require.NotEmpty(t, files(t, s.fs, ".ldb"))
	require.Equal(t, 1, s.ended)
}
