package commit

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/read/lookup"
)

// Writes fail while the disk is full, and continue in another log once there is space. What was acknowledged is in the
// memtables, which are flushed.
func TestAFullDiskEndsALogButNotTheWrites(t *testing.T) {
	for name, kind := range map[string]wrap.OpKind{"write": wrap.OpWrite, "sync": wrap.OpSync} {
		t.Run(name, func(t *testing.T) {
			s := open(t, config{})
			s.flushAlways()
			require.NoError(t, s.put(0, WithSystem))
			s.faults.On(failing(syscall.ENOSPC, kindOf(kind, wrap.OpCreate)))
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrNoSpace)
			require.ErrorIs(t, s.put(1, OnDisk), base.ErrNoSpace, "there is still no log")
			require.ErrorIs(t, s.Apply(batchOf(), OnDisk, nil), base.ErrNoSpace)
			require.NoError(t, s.Err())
			require.Len(t, s.disk, 1, "it is reported once")
			require.ErrorIs(t, s.disk[0], base.ErrNoSpace)
			s.requireKeys(0, 1)
			s.faults.Heal()
			require.NoError(t, s.put(1, OnDisk))
			s.requireKeys(0, 2)
			require.NotEqualValues(t, 1, s.state().Mem.LogNum)
			require.EqualValues(t, s.log.lastSeq, s.Synced())
			require.NoError(t, s.shut())
		})
	}
}

// The new log is there, but the memtable of the old one is not a table yet: no write is accepted.
func TestNoWriteIsAcceptedBeforeTheOldLogIsUnnecessary(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	s.EndFlush(syscall.ENOSPC)
	for range 2 {
		require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace, "the flush fails")
		require.EqualValues(t, 2, s.state().Mem.LogNum, "only one new log is made")
	}
	s.flush()
	require.NoError(t, s.put(1, WithSystem))
	s.requireKeys(0, 2)
	require.NoError(t, s.shut())
	all := logged(t, s.mem.Crash())
	require.Equal(t, string(key(1)), all[len(all)-1].key)
}

func TestAFailureEndsTheWritesOfAFullDiskToo(t *testing.T) {
	s := open(t, config{})
	require.NoError(t, s.put(0, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(1, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	failure := errors.New("a failure")
	s.Fail(failure)
	require.ErrorIs(t, s.put(1, WithSystem), failure)
	require.Equal(t, []uint64{1}, s.logs(), "no log is made any more")
	require.Error(t, s.shut(), "the content of the log is not durable")
}

// The history learns which numbers a log has before the store can do without the log, and of the next one.
func TestChangesFollowTheLogs(t *testing.T) {
	s := open(t, config{})
	var wakes, failed int
	var switches [][3]uint64
	refused := errors.New("refused")
	s.store.Changes = &Changes{
		SwitchLog: func(logged, last, next uint64) { switches = append(switches, [3]uint64{logged, last, next}) },
		KeepFailed: func(logged, last uint64) error {
			if failed++; failed == 1 {
				return refused
			}
			require.EqualValues(t, 12, logged)
			require.EqualValues(t, 13, last)
			return nil
		},
		Wake: func() { wakes++ },
	}
	require.NoError(t, s.put(0, WithSystem))
	require.Equal(t, 1, wakes)
	_, err := s.Rotate()
	require.NoError(t, err)
	require.Equal(t, [][3]uint64{{11, 11, 2}}, switches)
	require.Equal(t, 2, wakes, "the old log is synced")
	require.NoError(t, s.put(1, WithSystem))
	s.faults.On(failing(syscall.ENOSPC, kindOf(wrap.OpWrite)))
	require.ErrorIs(t, s.put(2, WithSystem), base.ErrNoSpace)
	s.faults.Heal()
	s.flush()
	require.Equal(t, refused, s.put(2, WithSystem))
	require.Len(t, switches, 1)
	s.flushAlways()
	require.NoError(t, s.put(2, WithSystem))
	require.Equal(t, [3]uint64{12, 13, 3}, switches[1])
	require.EqualValues(t, 13, s.Synced())
	require.NoError(t, s.put(3, OnDisk))
	require.NoError(t, s.shut())
	require.Equal(t, 8, wakes, "a failed write wakes nobody")
	s.requireKeys(0, 4)
}

// A store that only reads has no log, but leaders.
func TestAStoreThatOnlyReadsHasLeaders(t *testing.T) {
	s := open(t, config{})
	o := s.o
	var current lookup.Current
	current.State.Store(s.state())
	o.Current = &current
	reader := New(o)
	called := false
	require.NoError(t, reader.Lead(t.Context(), func(*Leader) error { called = true; return nil }))
	require.True(t, called)
	reader.Refuse()
	reader.BeginEnd()
	reader.Shut(base.ErrClosed)
	require.Equal(t, base.ErrClosed, reader.Lead(t.Context(), func(*Leader) error { return nil }))
}
