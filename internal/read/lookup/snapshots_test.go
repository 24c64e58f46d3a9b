package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/version"
)

func TestSnapshotsOpenedDuringAFilterPinTheirState(t *testing.T) {
	set := manifest.New(manifest.SetOptions{Cmp: base.Bytewise})
	var c Current
	c.State.Store(&State{Mem: emptyMemtable(), Version: set.Current()})
	c.VisibleSeq.Store(5)
	var l Snapshots
	from, end := l.BeginFilter(true)
	require.Zero(t, from, "no snapshot is open")
	end()
	early := l.Open(&c, nil)
	require.Equal(t, At{Seq: 5}, early)
	from, end = l.BeginFilter(true)
	require.EqualValues(t, 6, from)
	c.VisibleSeq.Store(8)
	pinned := l.Open(&c, nil)
	require.Equal(t, At{Seq: 8, State: c.State.Load()}, pinned)
	from, other := l.BeginFilter(true)
	require.EqualValues(t, 6, from, "a pinned snapshot sees no change")
	other()
	other()
	require.NotNil(t, l.Open(&c, nil).State, "the first one is running")
	end()
	require.Nil(t, l.Open(&c, nil).State)
	c.VisibleSeq.Store(10)
	require.Equal(t, []uint64{5, 8, 10}, l.All(&c.VisibleSeq))
	require.EqualValues(t, 5, l.Oldest(&c.VisibleSeq))
	l.Close(&early)
	oldest, ok := l.OldestUnpinned()
	require.True(t, ok)
	require.EqualValues(t, 8, oldest)
	l.Close(&pinned)
	l.Close(&At{Seq: 8})
	require.Equal(t, []uint64{8, 10}, l.All(&c.VisibleSeq), "another one pins")
	_, ok = l.OldestUnpinned()
	require.False(t, ok)
}

func TestTheLastSnapshotThatReadsTheCurrentStateSignalsItsEnd(t *testing.T) {
	var c Current
	c.State.Store(&State{Mem: emptyMemtable(), Version: version.New(base.Bytewise, new(version.Owner))})
	var l Snapshots
	require.Nil(t, l.Drained(), "none is open")
	isClosed := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	first, second := l.Open(&c, nil), l.Open(&c, nil)
	drained := l.Drained()
	require.Equal(t, drained, l.Drained())
	unpin := l.Pin()
	pinned := l.Open(&c, nil)
	l.Close(&first)
	require.False(t, isClosed(drained), "the second one is open")
	l.Close(&second)
	require.True(t, isClosed(drained), "one that pins its state does not count")
	require.Nil(t, l.Drained())
	unpin()
	third := l.Open(&c, nil)
	require.False(t, isClosed(l.Drained()))
	l.Close(&pinned)
	require.False(t, isClosed(l.Drained()))
	l.Close(&third)
	require.Nil(t, l.Drained())
}

// The bug: a snapshot that was opened while a range was deleted could get the new number and the old
// state, and a transaction with it found no conflict with the deletion.
func TestAPinnedSnapshotIsOfOneMoment(t *testing.T) {
	v := version.New(base.Bytewise, new(version.Owner))
	states := []*State{{Version: v}, {Version: v}}
	var c Current
	var l Snapshots
	l.Show(&c, states[0], 0)
	defer l.Pin()()
	const changes = 50_000
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for seq := uint64(1); seq <= changes; seq++ {
			l.Show(&c, states[seq%2], seq)
		}
	}()
	for last := uint64(0); last < changes; {
		at := l.Open(&c, nil)
		require.GreaterOrEqual(t, at.Seq, last)
		require.Same(t, states[at.Seq%2], at.State, "at %d", at.Seq)
		last = at.Seq
		l.Close(&at)
	}
	<-changed
}
