package base

import (
	"fmt"
	"strconv"
	"strings"
)

// FileKind is what a file of a database directory is for, told by its name.
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
	FileClosed // ours: what Close vouched for; LevelDB's names have no such kind

	// NumFileKinds is the number of kinds.
	NumFileKinds = iota
)

// The names that carry no number.
const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
	InfoLogName = "LOG"
	// ClosedName parses in neither LevelDB nor goleveldb, so they leave the file alone.
	ClosedName = "CLOSED"
)

// FileName returns the name, without a directory, of the file of that kind
// and number. The number is ignored for kinds that carry none.
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
	}
	panic(fmt.Sprintf("base: no file kind %d", kind))
}

// MaxFileNum is the largest file number with which a database is opened. The
// format counts to 2^63-1; what lies between is room for new files, more than can
// ever be made. A file whose name says more is not ours: were it counted, the
// numbers behind it would run out.
const MaxFileNum = uint64(1) << 62

// ParseFileName tells what the file of that name, without a directory, is. ok
// is false for a name that neither the format nor we give: such files are not
// ours and are left alone. Among them is a number written with fewer or more
// zeros than FileName writes: "7.log" would stand for the same file as
// "000007.log", of which there is one.
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
	default:
		return 0, 0, false
	}
	num, ok = parseFileNum(digits)
	return kind, num, ok
}

// parseFileNum takes decimal digits only (strconv alone would take a sign) and
// a number up to MaxFileNum.
func parseFileNum(digits string) (uint64, bool) {
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	num, err := strconv.ParseUint(digits, 10, 63)
	return num, err == nil && num <= MaxFileNum
}
