package db

import "github.com/sievedb/sievedb/report"

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() report.OpenReport {
	if d == nil {
		return report.OpenReport{}
	}
	return d.report
}
