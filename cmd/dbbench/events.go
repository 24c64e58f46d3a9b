package main

import (
	"sync/atomic"

	"github.com/sievedb/sievedb/db"
)

// compactionEvents counts the running compactions.
type compactionEvents struct{ active atomic.Int64 }

func (e *compactionEvents) running() bool { return e.active.Load() > 0 }

// listener returns the listener for a newly opened store.
func (e *compactionEvents) listener() *db.EventListener {
	e.active.Store(0)
	return &db.EventListener{
		CompactionBegin: func(db.CompactionInfo) { e.active.Add(1) },
		CompactionEnd:   func(db.CompactionInfo) { e.active.Add(-1) },
	}
}
