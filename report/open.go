package report

// OpenReport describes what Open found and did.
type OpenReport struct {
	// Created says that there was no database.
	Created bool
	// Manifest is the name of the MANIFEST that was read; "" for a new database.
	Manifest string
	// ManifestBytesDropped counts the bytes of a last edit that a crash cut off.
	ManifestBytesDropped int64
	// ClosedCleanly says that Close closed the database, and that no program has written to it since. Then every byte
	// of the logs is known to have been written, so a wrong one is damage and never the end that a crash left.
	ClosedCleanly bool
	// MissingLog is the log that the MANIFEST names if it does not exist: writes that had not
	// reached a table are lost then. "" normally.
	MissingLog string
	// OptionsChanged lists the options that the database recorded when it was last opened for writing and that this
	// opening has otherwise, by the names of their fields in Options. Options.KeepRecord says which ones are recorded
	// now. It is empty for a new database.
	OptionsChanged []OptionChange
	// Losses says what is known to be lost: entries of a missing log, operations that are missing
	// before a log, values whose references another program's repair has removed, and what
	// Options.Salvage skipped. DB.Check reports them as faults. The end of a log that a crash cut, and
	// a missing log of goleveldb, which removes logs that have nothing more, are not among them.
	Losses []string
	// Logs lists the logs that were replayed, oldest first.
	Logs []LogReport
	// FilesRemoved counts leftover files of an earlier run that were removed.
	FilesRemoved int
	// TablesSetAside lists tables that the MANIFEST does not name but that may contain
	// committed data, because the MANIFEST may have lost edits. They were moved to these
	// places below the directory. They may be deleted if nothing is missing.
	TablesSetAside []string
}

// OptionChange is an option that differs from what a database has recorded. An empty value means the default.
type OptionChange struct{ Option, Recorded, Opened string }

// RecordedOption is an option that a database has recorded, by the name of its field in Options, with its value in
// words.
type RecordedOption struct{ Option, Value string }

// LogReport describes the content of one log.
type LogReport struct {
	Name             string
	Records, Entries uint64
	// Tail is "clean", "torn" (the end was cut, as by a crash), "hole" (the end was partly written, as after a power
	// cut), "damaged" (Salvage skipped something) or "not read" (it comes after damage).
	Tail string
	// BytesDropped counts the bytes without an acknowledged write: those of the tail, and a
	// torn record in a log of another program that was appended to after a crash.
	BytesDropped int64
	// Reason says what is wrong with the first of these bytes, or of the skipped ones.
	Reason string
	// GapBefore counts the operations that are missing between the previous log and this one. LevelDB and goleveldb do
	// not sync a log before they begin the next one, so a power cut may remove its end. A gap before a log of SieveDB
	// is ErrCorruption, and is counted here if Options.Salvage ignores it.
	GapBefore uint64
	// BytesSkipped and RecordsSkipped count what Options.Salvage skipped: bytes that do not decode, or that come after
	// such bytes, and records that do not decode although their checksums match.
	BytesSkipped   int64
	RecordsSkipped uint64
	// SetAside is the file below the directory that keeps the dropped or skipped bytes; "" if
	// there are none, and for a read-only opening.
	SetAside string
}
