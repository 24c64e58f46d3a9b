// Package compact schedules and runs compactions, and rewrites existing tables with new filters.
//
// A Scheduler owns all running work. From its Host, the store, it gets the current version and the snapshots, and it
// asks the Host to apply edits. The choice of a compaction is a pure function of a version (package manifest).
// MaxConcurrent slots bound the number of concurrent merges. A large merge is divided into pieces, which use free slots
// too (subcompaction.go). Which entries a merge keeps is decided by pure functions too (retention.go); merger.go
// applies them.
//
// A Scheduler has parts, each with an owner: its state says what may begin (state.go), work
// what runs (running.go), slots how much may run (slots.go), outcome how it ended
// (outcome.go), and burst whether level 0 still gathers tables (burst.go).
//
// Lock order: Scheduler.mu, which guards all parts, is locked after the locks of the store; only
// locks under which no other is taken may be locked after it. No file is read or written, and no
// method of Host that could wait is called, while it is held.
package compact
