package db

import "time"

// EventListener holds functions that the store calls when something happens.
// Nil fields are skipped. They are called from the store's own goroutines, one
// at a time or several at once, and never under a lock of the store; a slow one
// delays the work that it is told of.
type EventListener struct {
	// FlushEnd is told of each memtable written to a table, or not.
	FlushEnd func(FlushInfo)
	// CompactionBegin and CompactionEnd frame each compaction.
	CompactionBegin func(CompactionInfo)
	CompactionEnd   func(CompactionInfo)
	// WriteStall is told when writes were slowed or stopped, after the wait.
	WriteStall func(WriteStallInfo)
	// TableRemoved is told of each table file that was deleted.
	TableRemoved func(fileNum uint64)
	// BackgroundError is told of each error that no caller would see otherwise.
	BackgroundError func(error)
}

// FlushInfo describes a flush.
type FlushInfo struct {
	FileNum  uint64 // the new table; 0 where nothing was left to write
	Bytes    uint64
	Entries  uint64
	Duration time.Duration
	Err      error
}

// CompactionInfo describes a compaction. BytesWritten, OutputTables, Duration
// and Err are set at its end.
type CompactionInfo struct {
	Reason                    string
	InputLevel, OutputLevel   int
	InputTables, OutputTables int
	BytesRead, BytesWritten   uint64
	TrivialMove               bool
	Duration                  time.Duration
	Err                       error
}

// WriteStallInfo says why a write waited, and for how long.
type WriteStallInfo struct {
	Reason   string
	Stopped  bool // false: slowed on purpose; true: it could not go on
	Duration time.Duration
}

func (l *EventListener) flushEnd(i FlushInfo) {
	if l.FlushEnd != nil {
		l.FlushEnd(i)
	}
}

func (l *EventListener) compactionBegin(i CompactionInfo) {
	if l.CompactionBegin != nil {
		l.CompactionBegin(i)
	}
}

func (l *EventListener) compactionEnd(i CompactionInfo) {
	if l.CompactionEnd != nil {
		l.CompactionEnd(i)
	}
}

func (l *EventListener) writeStall(i WriteStallInfo) {
	if l.WriteStall != nil {
		l.WriteStall(i)
	}
}

func (l *EventListener) tableRemoved(fileNum uint64) {
	if l.TableRemoved != nil {
		l.TableRemoved(fileNum)
	}
}

func (l *EventListener) backgroundError(err error) {
	if l.BackgroundError != nil {
		l.BackgroundError(err)
	}
}
