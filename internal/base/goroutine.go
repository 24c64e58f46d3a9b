package base

import (
	"context"
	"runtime/pprof"
	"sync"
)

// Go runs f in a goroutine without the pprof labels of the caller. Every goroutine of the store starts here: work in
// the background would otherwise be profiled, until Close, as that of the request that happened to start it.
func Go(f func()) {
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		f()
	}()
}

// GoIn is Go for a goroutine of a group.
func GoIn(group *sync.WaitGroup, f func()) {
	group.Add(1)
	Go(func() {
		defer group.Done()
		f()
	})
}

// Unlabelled calls f in a goroutine without the pprof labels of the caller, and waits for it. Goroutines that f starts
// have none from their beginning on.
func Unlabelled(f func()) {
	ended := make(chan struct{})
	Go(func() {
		defer close(ended)
		f()
	})
	<-ended
}
