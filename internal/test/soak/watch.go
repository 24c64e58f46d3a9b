package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

const (
	measureEvery = 200 * time.Millisecond
	lineEvery    = time.Minute
)

// watch measures the directory, writes a line a minute, and ends the process if nothing is done for
// too long: a writer that waits forever reports no stall. It returns the function that ends it.
//
//race:long
func (r *run) watch() (end func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(measureEvery)
		defer tick.Stop()
		lastLine, lastOps, lastMoved := time.Now(), uint64(0), time.Now()
		for {
			r.space.add(r.measure())
			if ops := r.ops.Load(); ops != lastOps {
				lastOps, lastMoved = ops, time.Now()
			}
			if time.Since(lastMoved) > r.LongestStall+longestSession {
				stacks := make([]byte, 1<<20)
				panic(fmt.Sprintf("soak: nothing was done for %v\n%s", time.Since(lastMoved), stacks[:runtime.Stack(stacks, true)]))
			}
			if time.Since(lastLine) >= lineEvery {
				lastLine = time.Now()
				r.Log("%s", r.line())
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

// measure adds up the sizes of all files, once the fill is over; one that goes meanwhile takes nothing.
func (r *run) measure() (o occupancy) {
	if o.live = r.live(); o.live == 0 {
		return o
	}
	_ = filepath.WalkDir(r.Dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			o.disk += info.Size()
		}
		return nil
	})
	return o
}

func (r *run) line() string {
	now := takeSampleAsIs()
	return fmt.Sprintf("%v: %d ops, %d batches; %s; resident %d, descriptors %d; %s", time.Since(r.began).Round(time.Second),
		r.ops.Load(), r.batches.Load(), &r.space, now.resident, now.descriptors, &r.stalls)
}
