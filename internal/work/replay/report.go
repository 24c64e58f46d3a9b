package replay

import "github.com/sievedb/sievedb/report"

// The names, because functions of this package have reports in variables of that name.
type (
	openReport = report.OpenReport
	logReport  = report.LogReport
)

// logFindings is the report on the present log, and the facts that determine how it is read.
type logFindings struct {
	logReport
	bySieveDB bool // it begins with SieveDB's preamble
	appended  bool // another program has appended to it since
}

// onlySieveDB reports whether no other program has written to the log, as far as is known.
func (f *logFindings) onlySieveDB() bool { return f.bySieveDB && !f.appended }

// Salvaged reports whether something damaged was skipped, or a log was missing.
func (r *Replayer) Salvaged() bool {
	return r.salvaged || r.ended || r.report.MissingLog != "" || r.shift > 0
}

// Report returns what the replay has found and done so far: the part of the report on an opening that is about logs and
// files.
func (r *Replayer) Report() report.OpenReport { return r.report }
