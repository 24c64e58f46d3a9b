// Package metamorphic asks the store one question in many ways: the same history of operations, run under twenty sets
// of options and more, must give the same answers, and those of a sorted map. No answer needs to be known beforehand,
// so histories can be long and options arbitrary. Only tests import it.
//
//	seed ──► History ──┬──► sorted map ─────────► answers, which are right
//	   │               ├──► store, set 0 ───────► answers ┐
//	   └──► Set 0..n ──┼──► store, set 1 ───────► answers ├ each compared with
//	                   └──► store, set n ───────► answers ┘ the map's, at once
//
// Whatever equals the map's answers equals every other set's, so the sets are not compared among each other a second
// time; an Outcome lists each set that differs, and where first.
//
// # What a history holds
//
// Puts, deletions of keys and ranges, batches, loads and ingests, synced or not; transactions and bulk transactions,
// which are read like snapshots and stay open over writes of others, with which they may conflict; in every other
// history values that expire, and a clock that moves on, and back; swaps, which keep when a value expires or change it;
// openings that name all of the expiry prefixes, some or none; lookups; snapshots and iterators, several at a time and
// kept over later writes, with bounds and all movements; flushes and compactions, some with a filter that drops and
// replaces values; changes of options; closing and opening again, for writing or read-only; and power cuts. A power cut
// comes only after a synced write, a SyncLog or a flush, because otherwise the remaining data may differ by option set.
//
// # What an option set holds
//
// Everything of db.Options that may not change an answer; see Set. Sets with an odd number change to the next one's
// options each time the database is opened, so that files of one kind are read under another. Every fourth run has its
// keys in a namespace within another one, and must leave alone what is in others.
//
// In addition to the answers, each run must leave a sound database, no open file, no temporary file, no goroutine, no
// error in the background and no breach of the order of operations that package order checks.
//
// # Running one again
//
// A failure names seed, option set and first differing operation, and writes the
// history to a file. The flags of the test run it again:
//
//	-meta.seed=N   the first seed; the others count up; 0: choose
//	-meta.seeds=N  how many
//	-meta.ops=N    operations a history
//	-meta.sets=N   option sets a history
package metamorphic
