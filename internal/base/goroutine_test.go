package base

import (
	"bytes"
	"context"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Neither form of a goroutine has the labels of its caller, nor have those that it starts itself.
func TestGoroutinesHaveNoLabelsOfTheCaller(t *testing.T) {
	var group sync.WaitGroup
	end, running := make(chan struct{}), make(chan struct{})
	wait := func() { running <- struct{}{}; <-end }
	pprof.Do(context.Background(), pprof.Labels("caller", "labelled"), func(context.Context) {
		Go(wait)
		GoIn(&group, func() { go wait(); wait() })
		for range 3 {
			<-running
		}
		require.Equal(t, 1, bytes.Count(goroutines(t), []byte("labelled")), "the caller itself")
	})
	close(end)
	group.Wait()
	require.NotContains(t, string(goroutines(t)), "labelled")
}

func goroutines(t *testing.T) []byte {
	var text bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	return text.Bytes()
}

// Calls from listeners are recognized by the number of their goroutine, which the runtime does not promise to show.
func TestGoroutinesHaveNumbers(t *testing.T) {
	own := GoroutineID()
	require.NotZero(t, own)
	require.Equal(t, own, GoroutineID())
	other := make(chan uint64)
	go func() { other <- GoroutineID() }()
	require.NotContains(t, []uint64{0, own}, <-other)
}
