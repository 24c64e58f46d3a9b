package db

// OpenReport returns what Open found and did; of a nil DB the zero OpenReport.
func (d *DB) OpenReport() OpenReport {
	if d == nil {
		return OpenReport{}
	}
	return d.report
}
