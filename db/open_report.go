package db

import (
	"github.com/sievedb/sievedb/internal/replay"
)

// OpenReport says what Open found and did.
type OpenReport struct {
	// Created says that there was no database.
	Created bool
	// Manifest is the name of the MANIFEST that was read; "" for a new database.
	Manifest string
	// ManifestBytesDropped counts the bytes of a last edit that a crash cut off.
	ManifestBytesDropped int64
	// ClosedCleanly says that the database was closed by Close, and that no program
	// has written to it since. Every byte of the logs is known to have been written
	// then: what is wrong with one is damage, never the end that a crash left.
	ClosedCleanly bool
	// MissingLog is the log that the MANIFEST names, if it is not there: what had not
	// reached a table is lost then. "" normally.
	MissingLog string
	// Logs lists the logs that were replayed, oldest first.
	Logs []LogReport
	// FilesRemoved counts files that an earlier run left behind.
	FilesRemoved int
	// TablesSetAside lists tables that the MANIFEST does not name and that may hold
	// committed data all the same, since the MANIFEST may have lost edits: they were moved
	// to these places below the directory. They may be deleted if nothing is missing.
	TablesSetAside []string
}

// LogReport says what one log held.
type LogReport struct {
	Name             string
	Records, Entries uint64
	// Tail is "clean", "torn" (the end was cut, as a crash leaves it), "hole" (the
	// end was written in part only, as a power loss leaves it), "damaged" (Salvage
	// skipped something) or "not read" (it comes after damage).
	Tail string
	// BytesDropped counts the bytes that hold no acknowledged write: those of the tail, and
	// a torn record in a log of another program that was appended to after a crash.
	BytesDropped int64
	// Reason says what is wrong with the first of them, or of those skipped.
	Reason string
	// GapBefore counts the operations that are missing between the log before and
	// this one: LevelDB and goleveldb do not sync a log before they go on with the
	// next, so a power loss may take its end. Before a log that SieveDB wrote a gap is
	// ErrCorruption, and is counted here if Options.Salvage ignores it.
	GapBefore uint64
	// BytesSkipped and RecordsSkipped count what Options.Salvage skipped: bytes that do
	// not decode, or that come after such bytes, and records that do not decode although
	// their checksums match.
	BytesSkipped   int64
	RecordsSkipped uint64
	// SetAside is the file below the directory that keeps what was dropped or
	// skipped; "" where nothing was, and for a read-only opening.
	SetAside string
}

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() OpenReport {
	if d == nil {
		return OpenReport{}
	}
	return d.report
}

// addReplay adds what a replay found and did.
func (o *OpenReport) addReplay(r replay.Report) {
	o.ClosedCleanly, o.MissingLog = r.ClosedCleanly, r.MissingLog
	o.FilesRemoved, o.TablesSetAside = r.FilesRemoved, r.TablesSetAside
	for _, l := range r.Logs {
		o.Logs = append(o.Logs, LogReport(l))
	}
}
