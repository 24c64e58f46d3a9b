package replay

// Report describes what a replay found and did. The fields are those of db.OpenReport.
type Report struct {
	ClosedCleanly  bool
	MissingLog     string
	Losses         []string
	Logs           []LogReport
	FilesRemoved   int
	TablesSetAside []string
}

// LogReport describes the content of one log. The fields are those of db.LogReport.
type LogReport struct {
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

// logFindings is the report on the present log, and the facts that determine how it is read.
type logFindings struct {
	LogReport
	bySieveDB bool // it begins with SieveDB's preamble
}

// Salvaged reports whether something damaged was skipped, or a log was missing.
func (r *Replayer) Salvaged() bool {
	return r.salvaged || r.ended || r.report.MissingLog != "" || r.shift > 0
}

// Report returns what the replay has found and done so far.
func (r *Replayer) Report() Report { return r.report }
