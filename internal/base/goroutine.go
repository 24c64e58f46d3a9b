package base

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"strconv"
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

// GoroutineID returns the ID of the current goroutine, which is 1 or more. The runtime reports it only in the first
// line of a stack trace: "goroutine 7 [running]:". A call takes about a microsecond. If a later runtime writes that
// line in another form, the result is 0.
func GoroutineID() uint64 {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(line, []byte(" "))
	id, _ := strconv.ParseUint(string(number), 10, 64) // 0 if that is no number
	return id
}
