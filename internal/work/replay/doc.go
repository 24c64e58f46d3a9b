// Package replay reads the logs of a database that is opened, and decides which files that are not
// in use may be removed.
//
// A Replayer works in steps. Run compares the directory with the MANIFEST (check.go): every table must exist with its
// size, and so must the needed logs. Then it reads the logs, oldest first (replay.go). Finish writes the entries in
// memory and moves tables that may have committed data to lost/ (lost.go). The caller then makes the result durable,
// with a new log and a new MANIFEST, and only after that calls RemoveOld. Until then Abandon undoes everything, so a
// crash at any moment leaves the old state or the new one.
//
// What a log may lack depends on the program that wrote it, on its position among the logs and on
// how the database was closed:
//
//   - The newest log may end in a torn record or in a hole, as a crash leaves it.
//   - An older log of LevelDB or goleveldb may too, because they do not sync a log before they begin
//     the next. The missing operations are reported.
//   - An older log of SieveDB may not. The preamble of the next log says which operations came
//     before, so missing operations are corruption (gap.go).
//   - After a clean Close nothing may be missing.
//
// Everything else is damage. Options.Salvage says what happens then (salvage.go); lost bytes are copied to lost/ first.
//
// A replay for writing keeps one memtable and writes each full one as a table of level 0. A read-only replay writes
// nothing, keeps all memtables, and leaves out invisible versions (memory.go).
//
// A Replayer is used by one goroutine.
package replay
