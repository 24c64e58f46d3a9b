package db

import (
	"cmp"
	"slices"
)

// repairFindings is what a repair found and did: db.RepairReport says what the fields mean.
type repairFindings struct {
	Healthy         bool
	Manifest        string
	ManifestProblem string
	MayResurrect    bool
	Files           []repairedFile

	TablesWritten, BytesWritten, EntriesWritten uint64

	EntriesDuplicate, EntriesConflicting, EntriesShadowed, EntriesTooLarge uint64

	LastSequence uint64
	NewManifest  string
}

// fileFate is what a repair did with a file: the values are those of db.FileFate.
type fileFate int

const (
	fileKept fileFate = iota
	fileRewritten
	fileUnused
	fileMissing
)

// repairedFile is a file as a repair found it: db.RepairedFile says what the fields mean.
type repairedFile struct {
	Name     string
	Fate     fileFate
	Level    int
	LostName string
	Reason   string
	Damage   string

	Bytes, BytesLost   uint64
	Blocks, BlocksLost uint64
	Entries            uint64
}

// list sets the report's files.
func (r *repairFindings) list(lines []*repairedFile) {
	for _, f := range lines {
		r.Files = append(r.Files, *f)
	}
	slices.SortStableFunc(r.Files, func(a, b repairedFile) int { return cmp.Compare(a.Name, b.Name) })
}
