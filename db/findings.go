package db

// replayReport says what a replay found and did. The fields are those of db.OpenReport.
type replayReport struct {
	ClosedCleanly  bool
	MissingLog     string
	Logs           []replayLogReport
	FilesRemoved   int
	TablesSetAside []string
}

// replayLogReport says what one log held. The fields are those of db.LogReport.
type replayLogReport struct {
	Name             string
	Records, Entries uint64
	Tail             string
	BytesDropped     int64
	Reason           string
	GapBefore        uint64
	BytesSkipped     int64
	RecordsSkipped   uint64
	SetAside         string
}

// logFindings is the report on the log that is read, and what decides how it is read.
type logFindings struct {
	replayLogReport
	ours bool // it begins with our preamble
}

// Report returns what the replay has found and done until now.
func (r *replayer) Report() replayReport { return r.report }
