package tracking

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenIteratorsAndSnapshotsAreListed(t *testing.T) {
	var l OpenList
	require.Empty(t, l.String())
	one, other := new(int), new(int)
	l.Add(one, Iterator, true)
	l.Add(other, Snapshot, false)
	require.Regexp(t, `^1 iterators and 1 snapshots open: iterator opened at .*:\d+$`, l.String())
	iterators, snapshots, _ := l.Counts()
	require.Equal(t, []int{1, 1}, []int{iterators, snapshots})
	l.Remove(one, Iterator)
	require.Equal(t, "0 iterators and 1 snapshots open", l.String())
	l.Remove(other, Snapshot)
	require.Empty(t, l.String())
}

func TestAListenersGoroutineIsRecognized(t *testing.T) {
	var c ListenerCalls
	require.False(t, c.InThisGoroutine())
	Call(&c, nil, 0)
	called := false
	Call(&c, func(n int) {
		called = n == 7 && c.InThisGoroutine()
		Call(&c, func(int) { called = called && c.InThisGoroutine() }, 0)
		elsewhere := make(chan bool)
		go func() { elsewhere <- c.InThisGoroutine() }()
		called = called && !<-elsewhere && c.InThisGoroutine()
	}, 7)
	require.True(t, called)
	require.False(t, c.InThisGoroutine())
	require.Zero(t, c.running.Load(), "the next calls cost one load")
}
