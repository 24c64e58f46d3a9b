package repair

import (
	"cmp"
	"slices"
)

// Findings describes what a repair found and did. db.RepairReport documents the fields.
type Findings struct {
	Healthy         bool
	Manifest        string
	ManifestProblem string
	MayResurrect    bool
	Files           []File

	TablesWritten, BytesWritten, EntriesWritten uint64

	EntriesDuplicate, EntriesConflicting, EntriesShadowed, EntriesTooLarge uint64

	EntriesFilled uint64 // of EntriesWritten, from files that others had replaced

	LastSequence uint64
	NewManifest  string

	// EntriesLost and BytesLost count what is known to be lost, damaged blocks of tables in Damaged.
	EntriesLost, BytesLost uint64
	Ranges                 []KeyRange
	Damaged                bool // records in the middle of a log are lost, or files

	Interrupted   bool // the numbers above have what an interrupted repair before this one gave up
	LogsElsewhere bool // a MANIFEST records that the logs are in another directory
}

// Fate is the fate of a file in a repair. The values are those of db.FileFate.
type Fate int

const (
	kept Fate = iota
	rewritten
	unused
	missing
)

// File describes a file that a repair found. db.RepairedFile documents the fields.
type File struct {
	Name     string
	Fate     Fate
	Level    int
	LostName string
	Reason   string
	Damage   string

	Bytes, BytesLost   uint64
	Blocks, BlocksLost uint64
	Entries            uint64
}

// KeyRange is a range of user keys with both bounds; a nil bound is none.
type KeyRange struct{ First, Last []byte }

// list sets the files of the report.
func (r *Findings) list(lines []*File) {
	for _, f := range lines {
		r.Files = append(r.Files, *f)
	}
	slices.SortStableFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
}
