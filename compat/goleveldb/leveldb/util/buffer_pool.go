package util

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// BufferPool reuses buffers of sizes around a baseline. A nil pool allocates each buffer. It is safe
// for concurrent use.
type BufferPool struct {
	classes [5]int
	// pools has one pool for each class and one for larger buffers.
	pools [6]sync.Pool

	gets, puts, less, equal, greater, misses atomic.Uint32
}

// NewBufferPool returns a pool for buffers of a quarter of the baseline to four times that. It
// panics if the baseline is not positive.
func NewBufferPool(baseline int) *BufferPool {
	if baseline <= 0 {
		panic("leveldb/util: the baseline of a BufferPool must be positive")
	}
	return &BufferPool{classes: [...]int{baseline / 4, baseline / 2, baseline, 2 * baseline, 4 * baseline}}
}

func (p *BufferPool) class(n int) int {
	for i, size := range p.classes {
		if n <= size {
			return i
		}
	}
	return len(p.classes)
}

// Get returns a buffer of length n. Its content is arbitrary.
func (p *BufferPool) Get(n int) []byte {
	if p == nil {
		return make([]byte, n)
	}
	p.gets.Add(1)
	class := p.class(n)
	if b, ok := p.pools[class].Get().(*[]byte); !ok {
		p.misses.Add(1)
	} else if size := cap(*b); size < n {
		p.greater.Add(1)
	} else {
		if size == n {
			p.equal.Add(1)
		} else {
			p.less.Add(1)
		}
		return (*b)[:n]
	}
	if class == len(p.classes) {
		return make([]byte, n)
	}
	return make([]byte, n, p.classes[class])
}

// Put gives a buffer to the pool. The caller must not use it any more.
func (p *BufferPool) Put(b []byte) {
	if p == nil {
		return
	}
	p.puts.Add(1)
	p.pools[p.class(cap(b))].Put(&b)
}

// String returns the sizes and the counts of the pool.
func (p *BufferPool) String() string {
	if p == nil {
		return "<nil>"
	}
	return fmt.Sprintf("BufferPool{B·%d G·%d P·%d <·%d =·%d >·%d M·%d}", p.classes,
		p.gets.Load(), p.puts.Load(), p.less.Load(), p.equal.Load(), p.greater.Load(), p.misses.Load())
}
