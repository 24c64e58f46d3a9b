package db

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenIteratorsAndSnapshotsAreListed(t *testing.T) {
	var l openList
	require.Empty(t, l.String())
	one, other := new(int), new(int)
	l.Add(one, openIterator, true)
	l.Add(other, openSnapshot, false)
	require.Regexp(t, `^1 iterator, 1 snapshot open: iterator opened at .*:\d+$`, l.String())
	iterators, snapshots, _ := l.Counts()
	require.Equal(t, []int{1, 1}, []int{iterators, snapshots})
	l.Remove(one, openIterator)
	require.Equal(t, "1 snapshot open: Options.TrackOpen records where each was opened", l.String())
	l.Remove(other, openSnapshot)
	require.Empty(t, l.String())
}

func TestAListenersGoroutineIsRecognized(t *testing.T) {
	var c listenerCalls
	require.False(t, c.InThisGoroutine())
	notify(&c, nil, 0)
	called := false
	notify(&c, func(n int) {
		called = n == 7 && c.InThisGoroutine()
		notify(&c, func(int) { called = called && c.InThisGoroutine() }, 0)
		elsewhere := make(chan bool)
		go func() { elsewhere <- c.InThisGoroutine() }()
		called = called && !<-elsewhere && c.InThisGoroutine()
	}, 7)
	require.True(t, called)
	require.False(t, c.InThisGoroutine())
	require.Zero(t, c.running.Load(), "the next calls cost one load")
}
