package dbdir

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// The names of the marks. Other engines leave files of these names alone.
const (
	markInDir  = "LOGDIR" // in the directory of the database
	markInLogs = "LOGS"   // in that of the logs
)

// mark is the content of both files.
type mark struct {
	id string // 32 hexadecimal digits
	// other is the other directory. It is empty in LOGDIR after abandonLogs.
	other string
}

const markFirstLine = "SieveDB: the logs of this database are in a directory of their own"

func (m mark) encode() []byte {
	return []byte(markFirstLine + "\nid " + m.id + "\nother " + strconv.Quote(m.other) + "\n")
}

// decodeMark returns the mark in data; ok is false if there is none.
func decodeMark(data []byte) (m mark, ok bool) {
	rest, ok := strings.CutPrefix(string(data), markFirstLine+"\nid ")
	if !ok {
		return mark{}, false
	}
	id, rest, ok := strings.Cut(rest, "\nother ")
	quoted, end := strings.CutSuffix(rest, "\n")
	other, err := strconv.Unquote(quoted)
	if raw, bad := hex.DecodeString(id); !ok || !end || err != nil || bad != nil || len(raw) != 16 {
		return mark{}, false
	}
	m = mark{id, other}
	return m, string(m.encode()) == string(data)
}

// isNewer reports whether data is a mark of a later version: it has more lines.
func isNewer(data []byte) bool {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines) < 5 || len(lines[len(lines)-1]) > 0 {
		return false
	}
	_, ok := decodeMark(bytes.Join(lines[:3], nil))
	return ok
}

// maxMark bounds the size of a mark, in bytes.
const maxMark = 64 << 10

// readMark returns the mark in a file, ok false if there is no such file.
func readMark(fsys vfs.FS, path string) (m mark, ok bool, err error) {
	info, err := fsys.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mark{}, false, nil
	case err != nil:
		return mark{}, false, errors.Wrapf(err, "sievedb: reading %s", path)
	case !info.Mode().IsRegular() || info.Size() > maxMark:
		return mark{}, false, damagedMark(path)
	}
	f, err := fsys.Open(path)
	if err != nil {
		return mark{}, false, errors.Wrapf(err, "sievedb: reading %s", path)
	}
	data := make([]byte, info.Size())
	_, err = vfs.ReadFull(f, data, 0)
	if err = errors.CombineErrors(err, f.Close()); err != nil {
		return mark{}, false, errors.Wrapf(err, "sievedb: reading %s", path)
	}
	if isNewer(data) {
		return mark{}, false, base.InFile(base.Newerf("mark of a log directory", -1, "it has more lines than the known three"), path, -1)
	}
	if m, ok = decodeMark(data); !ok {
		return mark{}, false, damagedMark(path)
	}
	return m, true, nil
}

func damagedMark(path string) error {
	return base.Corruptf(path, -1, "this is no mark of a log directory; LOGDIR in the directory of the database and LOGS in that of its logs "+
		"have the same content except for the name of the other directory, so write it again from the one that is whole; if the logs are lost as well, "+
		"repair the database with its own directory as Options.LogDir")
}

// write installs a mark durably.
func (m mark) write(fsys vfs.FS, path string) error {
	temp := path + tempSuffix
	f, err := vfs.Replace(fsys, temp)
	if err != nil {
		return err
	}
	if _, err = f.Write(m.encode()); err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		return errors.CombineErrors(err, fsys.Remove(temp))
	}
	return fsys.SyncDir(filepath.Dir(path))
}
