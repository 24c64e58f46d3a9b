package batch

import "sync"

// MaxKept bounds the buffer of a batch that Return keeps.
const MaxKept = 64 << 10

var pool = sync.Pool{New: func() any { return new(Batch) }}

// Borrow returns an empty batch. The caller gives it back with Return.
func Borrow() *Batch { return pool.Get().(*Batch) }

// Return gives back a batch that Borrow returned, unless its buffer is too large to be worth keeping.
func Return(b *Batch) {
	if b.Cap() <= MaxKept {
		b.Reset()
		pool.Put(b)
	}
}
