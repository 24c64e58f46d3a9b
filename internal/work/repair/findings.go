package repair

import (
	"cmp"
	"slices"

	"github.com/sievedb/sievedb/report"
)

// Findings describes what a repair found and did. Its EntriesLost and BytesLost count what is known to be lost; damaged
// blocks of tables are in Damaged.
type Findings struct {
	report.RepairReport
	Damaged       bool // records in the middle of a log are lost, or files
	LogsElsewhere bool // a MANIFEST records that the logs are in another directory
}

// File describes a file that a repair found.
type File = report.RepairedFile

const (
	kept      = report.FileKept
	rewritten = report.FileRewritten
	unused    = report.FileUnused
	missing   = report.FileMissing
)

// Public returns the findings about the database in dir in their public form.
func (r *Findings) Public(dir string) *report.RepairReport {
	public := r.RepairReport
	public.Dir = dir
	public.Incomplete = r.Damaged || r.MayResurrect || r.Interrupted || r.EntriesLost > 0 || r.BytesLost > 0 || len(r.Ranges) > 0 ||
		r.EntriesConflicting > 0 || r.EntriesTooLarge > 0 || r.ValuesLost > 0
	return &public
}

// list sets the files of the report.
func (r *Findings) list(lines []*File) {
	for _, f := range lines {
		r.Files = append(r.Files, *f)
	}
	slices.SortStableFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
}
