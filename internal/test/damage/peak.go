package damage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Peak runs fn and returns approximately by how many bytes the heap grew at most meanwhile. The memory
// of other goroutines and garbage that is not collected yet are included.
//
//race:apart
func Peak(fn func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // to leave little garbage
	runtime.GC()
	before := heapBytes()
	peak, done := before, make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				peak = max(peak, heapBytes())
			}
		}
	})
	fn()
	close(done)
	sampler.Wait()
	return max(peak, heapBytes()) - before
}

// heapBytes returns the size of the objects on the heap, including garbage.
func heapBytes() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64()
}
