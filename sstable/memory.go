package sstable

import (
	"runtime"
	"sync/atomic"
)

// MemoryUse counts the memory of filters and indexes of any number of Readers, which call it from any goroutine.
type MemoryUse interface {
	// Add counts bytes more, or less if below 0. It may be called with locks of a Reader held.
	Add(bytes int64)
	// Settle is called without a lock after a Reader that Open has returned has grown, so that others can be closed.
	Settle()
}

// memory is what a Reader has counted.
type memory struct {
	use   MemoryUse
	bytes atomic.Int64
}

// countMemory makes the Reader count its memory. That of a Reader whose references were lost, as those of an iterator
// that its owner forgot to close, is returned with the Reader.
func (r *Reader) countMemory(use MemoryUse) {
	if use != nil {
		r.memory = &memory{use: use}
		runtime.AddCleanup(r, (*memory).giveBack, r.memory)
	}
}

// charge counts size more bytes. Once the last reference was dropped, it returns all.
func (r *Reader) charge(size int64) {
	if r.memory == nil {
		return
	}
	r.memory.bytes.Add(size)
	r.memory.use.Add(size)
	if r.refs.Load() == 0 { // perhaps after the memory was returned
		r.memory.giveBack()
	}
}

func (m *memory) giveBack() {
	if bytes := m.bytes.Swap(0); bytes != 0 {
		m.use.Add(-bytes)
	}
}

// Idle reports whether only the owner of the Reader has a reference, so that closing it frees its memory.
func (r *Reader) Idle() bool { return r.refs.Load() <= 1 }

// ReturnMemory ends the counting of what the Reader has. It is for owners that are about to close it.
func (r *Reader) ReturnMemory() {
	if r.memory != nil {
		r.memory.giveBack()
	}
}
