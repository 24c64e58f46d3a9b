// Package compact keeps a store in shape: it chooses compactions, merges tables downward,
// and gives existing tables new filters.
//
// A Scheduler owns all that runs. It asks its Host, the store, for three things: the current
// version, the oldest snapshot, and to apply an edit. The choice itself is a pure function of
// a version (package manifest). MaxConcurrent slots bound the merges that run at once; a
// large merge is divided into pieces that take free slots too (subcompaction.go).
//
// Scheduler.mu is taken after the locks of the store and before none but leaves; no file
// is read or written under it, and no method of Host that could wait is called under it.
package compact
