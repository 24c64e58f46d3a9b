package db

import (
	"github.com/sievedb/sievedb/internal/work/replay"
)

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() OpenReport {
	if d == nil {
		return OpenReport{}
	}
	return d.report
}

// addReplay adds what a replay found and did.
func addReplay(o *OpenReport, r replay.Report) {
	o.ClosedCleanly, o.MissingLog, o.Losses = r.ClosedCleanly, r.MissingLog, r.Losses
	o.FilesRemoved, o.TablesSetAside = r.FilesRemoved, r.TablesSetAside
	for _, l := range r.Logs {
		o.Logs = append(o.Logs, LogReport(l))
	}
}
