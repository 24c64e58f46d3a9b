package cache_test

import (
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/limit/cache"
)

// file is a resource that must be closed when it is no longer used.
type file struct {
	name string
	refs atomic.Int32
}

// tryRef takes a reference, unless the last one has been dropped already.
func (f *file) tryRef() bool {
	for {
		n := f.refs.Load()
		if n == 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *file) unref() {
	if f.refs.Add(-1) == 0 {
		fmt.Println("close", f.name)
	}
}

// acquire returns the slot's file with a reference for the caller. The goroutine that opens a file takes its reference
// before the cache has the file, since a cache without room drops it immediately. The others try to take theirs.
func acquire(c *cache.Cache[*file], s *cache.Slot[*file], name string) *file {
	for {
		opened := false
		f, _ := c.GetOrLoad(s, func() (*file, int64, error) {
			fmt.Println("open", name)
			opened = true
			f := &file{name: name}
			f.refs.Store(2) // the cache's and the caller's
			return f, 1, nil
		})
		if opened || (*f).tryRef() {
			return *f
		}
		// It was evicted and closed between the two steps; try again.
	}
}

// Values that hold a resource need a reference count; the cache has one of the references.
func Example_references() {
	c := cache.New(1, func(f **file) { (*f).unref() })
	slots := make([]cache.Slot[*file], 2)

	one := acquire(c, &slots[0], "one")
	two := acquire(c, &slots[1], "two") // evicts "one", which is in use
	fmt.Println("done with one")
	one.unref()
	two.unref()
	fmt.Println("done with two")
	c.Close()

	late := acquire(c, &slots[0], "one") // a closed cache still loads
	late.unref()
	// Output:
	// open one
	// open two
	// done with one
	// close one
	// done with two
	// close two
	// open one
	// close one
}
