package report

import (
	"fmt"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
)

// RepairReport describes what a repair found and did. It contains no values, and no keys except in Ranges,
// which String does not print.
type RepairReport struct {
	Dir string
	// Healthy says that nothing was wrong, and that nothing was changed.
	Healthy bool
	// DryRun says that PlanRepair made the report, and that nothing was changed.
	DryRun bool

	// Incomplete says that something was lost, or may be an older version. The end of a log that a
	// crash cut does not count.
	Incomplete bool
	// Interrupted says that an earlier repair was interrupted which gave something up. EntriesLost and BytesLost have
	// its numbers too, but Ranges lacks its ranges; its files are in dir/lost.
	Interrupted bool
	// EntriesLost counts the entries that are known to be lost, BytesLost the bytes of missing tables and
	// damaged blocks whose entries are not counted. Files that others had replaced may have had
	// the same entries; see EntriesFilled.
	EntriesLost, BytesLost uint64
	// Ranges are the key ranges of missing tables and damaged blocks, ascending: keys in them may be
	// missing or have older values. Missing operations and logs can concern any key.
	Ranges []RepairedRange

	// Manifest is the MANIFEST that was used: it says which tables are in use, and on which
	// level. It is empty if none could be used.
	Manifest string
	// ManifestProblem says what was wrong with CURRENT or the MANIFEST; empty if nothing was.
	ManifestProblem string
	// MayResurrect says that the tables in use could not be determined, or that replaced ones fill the key ranges of
	// missing ones, or that value tables are used without the entries that referred to their values. A table that a
	// compaction had replaced may have brought back deleted keys and older values, and a part of a load, an ingest or a
	// deletion of a range may be present that a crash interrupted. Or values come from a damaged value table of which
	// nothing says whose values it has: some may be older ones of their keys.
	MayResurrect bool

	// Files lists the tables, logs, MANIFESTs and temporary files that were found or are missing, by name.
	Files []RepairedFile

	// TablesWritten and BytesWritten count the new tables, EntriesWritten their
	// entries, tombstones and old versions included.
	TablesWritten, BytesWritten, EntriesWritten uint64
	// EntriesDuplicate counts entries dropped because they exist twice; EntriesConflicting those of them whose kinds or
	// values differ without a reason (the one that sets the key was kept, or the greater value); EntriesShadowed
	// entries dropped because a table that was kept has a newer version of the key; EntriesTooLarge entries dropped
	// because no table can be written with them.
	EntriesDuplicate, EntriesConflicting, EntriesShadowed, EntriesTooLarge uint64
	// ValuesLost counts entries dropped because the value table that had their values is missing or
	// damaged. An older version of such a key may be there again.
	ValuesLost uint64
	// EntriesFilled counts those of EntriesWritten that come from value tables, or from tables and
	// logs which other tables had replaced, and are in the key ranges of tables that are missing or damaged.
	// Deleted keys may be among them.
	EntriesFilled uint64
	// LastSequence is the greatest sequence number seen, kept or not.
	LastSequence uint64
	// NewManifest is the MANIFEST that was written.
	NewManifest string
	// LogsAbandoned is the directory whose logs were not read; see Options.LogDir. It is empty
	// if all logs were read, and "unknown" if nothing says where they were.
	LogsAbandoned string
}

// RepairedRange is a range of keys with both bounds. A nil bound is none.
type RepairedRange struct{ First, Last []byte }

// FileFate is the fate of a file in a repair.
type FileFate int

const (
	// FileKept: it stays in use unchanged.
	FileKept FileFate = iota
	// FileRewritten: its readable part was written to new tables.
	FileRewritten
	// FileUnused: nothing of it was used.
	FileUnused
	// FileMissing: the MANIFEST names it, and it does not exist.
	FileMissing
)

// String returns the fate in a word.
func (f FileFate) String() string {
	switch f {
	case FileKept:
		return "kept"
	case FileRewritten:
		return "rewritten"
	case FileUnused:
		return "unused"
	case FileMissing:
		return "missing"
	}
	return fmt.Sprintf("FileFate(%d)", int(f))
}

// RepairedFile is a file as a repair found it.
type RepairedFile struct {
	Name string
	Fate FileFate
	// Level is where a table that was kept is; -1 otherwise.
	Level int
	// LostName is the file's name within dir/lost, empty if it did not go there.
	LostName string
	// Reason says why the file was not kept unchanged.
	Reason string
	// Damage describes the first damage in its bytes; empty if there is none.
	Damage string

	// Bytes is the file's size, BytesLost the part of it that could not be read.
	Bytes, BytesLost uint64
	// Blocks counts the data blocks of a table, or the records of a log or
	// MANIFEST, that were read; BlocksLost those that are known to be lost.
	Blocks, BlocksLost uint64
	// Entries counts the entries read.
	Entries uint64
}

// String returns the report as text of several lines, for people.
func (r *RepairReport) String() string {
	var b strings.Builder
	if r.Healthy {
		fmt.Fprintf(&b, "%s: nothing is wrong with it; nothing was changed\n", r.Dir)
	} else if r.DryRun {
		fmt.Fprintf(&b, "%s: this is what a repair would do; nothing was changed\n", r.Dir)
	} else if r.Incomplete {
		fmt.Fprintf(&b, "%s: repaired as far as possible\n", r.Dir)
	} else {
		fmt.Fprintf(&b, "%s: repaired\n", r.Dir)
	}
	if r.ManifestProblem != "" {
		fmt.Fprintf(&b, "  CURRENT or MANIFEST: %s\n", r.ManifestProblem)
	}
	if r.Manifest != "" {
		fmt.Fprintf(&b, "  the tables in use and their levels are those of %s\n", r.Manifest)
	} else {
		b.WriteString("  no MANIFEST could be believed: the tables were placed by their contents\n")
	}
	switch {
	case r.EntriesFilled > 0:
		fmt.Fprintf(&b, "  %s in the key ranges of missing or damaged tables, read from value tables, or from tables and logs that others had replaced: "+
			"deleted keys and older values may have come back\n", entriesText(r.EntriesFilled))
	case r.MayResurrect:
		b.WriteString("  which tables were in use, or whose values a damaged value table has, is not known: deleted keys and older values may have come back\n")
	}
	for i := range r.Files {
		b.WriteString("  " + r.Files[i].String() + "\n")
	}
	switch {
	case r.Healthy:
		return b.String()
	case r.DryRun:
		return b.String() + r.verdict()
	}
	fmt.Fprintf(&b, "  written: %s, %s, %s", counted(uint64(r.TablesWritten), "table"), counted(r.BytesWritten, "byte"), entriesText(r.EntriesWritten))
	for _, dropped := range []struct {
		n   uint64
		why string
	}{
		{r.EntriesShadowed, "that a newer version hides"},
		{r.EntriesDuplicate, "that were there twice"},
		{r.EntriesConflicting, "of these with different values"},
		{r.EntriesTooLarge, "too large for a table"},
		{r.ValuesLost, "whose values are lost"},
	} {
		if dropped.n > 0 {
			fmt.Fprintf(&b, "; dropped %d %s", dropped.n, dropped.why)
		}
	}
	fmt.Fprintf(&b, "\n  last sequence %d; new %s\n", r.LastSequence, r.NewManifest)
	b.WriteString(r.verdict())
	return b.String()
}

// verdict returns the last line of the report.
func (r *RepairReport) verdict() string {
	if !r.Incomplete {
		return "nothing was lost\n"
	}
	var parts []string
	if r.EntriesLost > 0 {
		parts = append(parts, pluralText(r.EntriesLost, "entry is", "entries are")+" lost")
	}
	if r.BytesLost > 0 {
		parts = append(parts, fmt.Sprintf("the entries in %s are lost, unless other files had them", counted(r.BytesLost, "byte")))
	}
	if r.ValuesLost > 0 {
		parts = append(parts, pluralText(r.ValuesLost, "value is", "values are")+" lost")
	}
	if len(r.Ranges) > 0 {
		parts = append(parts, fmt.Sprintf("keys in %s may be missing or old", counted(uint64(len(r.Ranges)), "range")))
	}
	switch {
	case r.Interrupted && r.EntriesLost+r.BytesLost > 0:
		parts = append(parts, "the numbers include what an earlier repair, which was interrupted, gave up in ranges that are not known any more")
	case r.Interrupted:
		parts = append(parts, "an earlier repair, which was interrupted, gave up entries in ranges that are not known any more")
	}
	if r.MayResurrect {
		parts = append(parts, "deleted keys and older values may have come back")
	}
	if len(parts) == 0 {
		parts = append(parts, "damaged, missing or contradictory entries were left out")
	}
	return strings.Join(parts, "; ") + "\n"
}

// String returns the file in one line.
func (f *RepairedFile) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Name, f.Fate)
	if f.Fate == FileKept && f.Level >= 0 {
		fmt.Fprintf(&b, " on level %d", f.Level)
	}
	if f.Reason != "" {
		fmt.Fprintf(&b, ", %s", f.Reason)
	}
	if f.Fate != FileMissing {
		fmt.Fprintf(&b, "; %s in %s of %s", entriesText(f.Entries), counted(uint64(f.Blocks), "block"), counted(f.Bytes, "byte"))
	}
	if f.BlocksLost > 0 || f.BytesLost > 0 {
		fmt.Fprintf(&b, "; lost %s, %s", counted(uint64(f.BlocksLost), "block"), counted(f.BytesLost, "byte"))
	}
	if f.Damage != "" {
		fmt.Fprintf(&b, "; damage: %s", f.Damage)
	}
	if f.LostName != "" {
		fmt.Fprintf(&b, "; now %s/%s", base.LostDir, f.LostName)
	}
	return b.String()
}
