package damage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Peak runs fn and returns how many bytes more than before the heap held at most meanwhile,
// about: what other goroutines hold counts too, and garbage that is not collected yet.
func Peak(fn func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // to leave little garbage
	runtime.GC()
	before := held()
	most, done := before, make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				most = max(most, held())
			}
		}
	})
	fn()
	close(done)
	sampler.Wait()
	return max(most, held()) - before
}

// held returns the bytes of the heap's objects, garbage included.
func held() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64()
}
