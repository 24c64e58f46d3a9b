package base

import (
	"fmt"
	"strconv"
	"strings"
)

// FileKind is the kind of a file in a database directory, which its name determines.
type FileKind int

// The kinds of file, named as in LevelDB's db/filename.h.
const (
	FileLog FileKind = iota
	FileTable
	FileOldTable // a table under LevelDB's old suffix, .sst
	FileManifest
	FileCurrent
	FileLock
	FileTemp
	FileInfoLog
	FileClosed // the mark that Close writes; LevelDB has no such file
	FileValues // a value table; LevelDB has no such file

	// NumFileKinds is the number of kinds.
	NumFileKinds = iota
)

// IsTable reports whether files of that kind are tables, also value tables.
func (k FileKind) IsTable() bool { return k == FileTable || k == FileOldTable || k == FileValues }

// The names without a number.
const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
	InfoLogName = "LOG"
	// ClosedName is not a valid name for LevelDB or goleveldb, so they leave the file alone.
	ClosedName = "CLOSED"
)

// FileName returns the name, without a directory, of the file of the given kind and number. It
// ignores the number for kinds without one.
func FileName(kind FileKind, num uint64) string {
	switch kind {
	case FileLog:
		return fmt.Sprintf("%06d.log", num)
	case FileTable:
		return fmt.Sprintf("%06d.ldb", num)
	case FileOldTable:
		return fmt.Sprintf("%06d.sst", num)
	case FileManifest:
		return fmt.Sprintf("MANIFEST-%06d", num)
	case FileCurrent:
		return CurrentName
	case FileLock:
		return LockName
	case FileTemp:
		return fmt.Sprintf("%06d.dbtmp", num)
	case FileInfoLog:
		return InfoLogName
	case FileClosed:
		return ClosedName
	case FileValues:
		return fmt.Sprintf("%06d.values", num)
	}
	panic(fmt.Sprintf("base: no file kind %d", kind))
}

// MaxFileNum is the largest file number with which a database is opened. The format counts to
// 2^63-1; the numbers in between are reserved for new files, more than can ever be made. A file
// with a larger number is not ours: if it counted, file numbers would run out.
const MaxFileNum = uint64(1) << 62

// ParseFileName returns the kind and number of the file with the given name, without a
// directory. ok is false for names that FileName does not return: such files are not ours and
// are left alone. This includes numbers with fewer or more zeros than FileName writes:
// otherwise "7.log" would be the same file as "000007.log".
func ParseFileName(name string) (kind FileKind, num uint64, ok bool) {
	kind, num, ok = parseFileName(name)
	if !ok || name != FileName(kind, num) && name != InfoLogName+".old" {
		return 0, 0, false
	}
	return kind, num, true
}

func parseFileName(name string) (kind FileKind, num uint64, ok bool) {
	switch name {
	case CurrentName:
		return FileCurrent, 0, true
	case LockName:
		return FileLock, 0, true
	case InfoLogName, InfoLogName + ".old":
		return FileInfoLog, 0, true
	case ClosedName:
		return FileClosed, 0, true
	}
	if digits, found := strings.CutPrefix(name, "MANIFEST-"); found {
		num, ok = parseFileNum(digits)
		return FileManifest, num, ok
	}
	digits, suffix, found := strings.Cut(name, ".")
	if !found {
		return 0, 0, false
	}
	switch suffix {
	case "log":
		kind = FileLog
	case "ldb":
		kind = FileTable
	case "sst":
		kind = FileOldTable
	case "dbtmp":
		kind = FileTemp
	case "values":
		kind = FileValues
	default:
		return 0, 0, false
	}
	num, ok = parseFileNum(digits)
	return kind, num, ok
}

// parseFileNum accepts only decimal digits (strconv alone would accept a sign) and numbers up to MaxFileNum.
func parseFileNum(digits string) (uint64, bool) {
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	num, err := strconv.ParseUint(digits, 10, 63)
	return num, err == nil && num <= MaxFileNum
}

// LogDirPrefix begins the comparer's name in the MANIFEST of a database whose logs are in another
// directory, so that LevelDB and goleveldb do not open it without them.
const LogDirPrefix = "sievedb.LogDir:"

// ValuesPrefix begins the comparer's name, after LogDirPrefix if that is there, in a MANIFEST with value tables, which
// LevelDB and goleveldb do not know.
const ValuesPrefix = "sievedb.Values:"

// MarkComparerName returns the name with the marks of a MANIFEST.
func MarkComparerName(name string, logsElsewhere, values bool) string {
	if values {
		name = ValuesPrefix + name
	}
	if logsElsewhere {
		name = LogDirPrefix + name
	}
	return name
}

// PlainComparerName returns a name from a MANIFEST without the marks.
func PlainComparerName(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, LogDirPrefix), ValuesPrefix)
}

// LostDir is the subdirectory of a database's directory for files that are not in use any more.
const LostDir = "lost"

// ChangesDir is the subdirectory of a database's directory for the logs that are kept for DB.Changes.
const ChangesDir = "changes"

// BackupDir is the subdirectory of a database's directory for the checkpoints of backups that are being made.
const BackupDir = "backup"
