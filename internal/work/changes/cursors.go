package changes

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// The file CURSORS is text: a title, a line with position and quoted name for each cursor, and a checksum
// of the lines before.

const (
	// cursorsTitle ends with the version. The title line and the last line stay in later versions.
	cursorsTitle   = cursorsFamily + "1"
	cursorsFamily  = "sievedb cursors "
	cursorsVersion = 1
	// maxCursors bounds the number of cursors, and maxCursorName the bytes of a name.
	maxCursors    = 10_000
	maxCursorName = 1_000
	maxCursorFile = maxCursors * (4*maxCursorName + 32)
)

func encodeCursors(cursors map[string]uint64) []byte {
	var b strings.Builder
	fmt.Fprintln(&b, cursorsTitle)
	for _, name := range slices.Sorted(maps.Keys(cursors)) {
		fmt.Fprintln(&b, cursors[name], strconv.QuoteToASCII(name))
	}
	fmt.Fprintf(&b, "crc32c %08x\n", util.CRC32C([]byte(b.String())))
	return []byte(b.String())
}

// newerCursors returns an error if the file is of a later version of the format, and nil otherwise. A file with a wrong
// checksum is damaged instead. Only a part of a file that is too large was read, so its checksum is not checked.
func newerCursors(b []byte, whole bool) error {
	title, _, ok := strings.Cut(string(b), "\n")
	digits, ours := strings.CutPrefix(title, cursorsFamily)
	version, err := strconv.ParseUint(digits, 10, 32)
	if !ok || !ours || err != nil || version <= cursorsVersion {
		return nil
	}
	body, sum, ok := cutLast(string(b))
	if whole && (!ok || sum != fmt.Sprintf("crc32c %08x", util.CRC32C([]byte(body)))) {
		return nil
	}
	return base.Newerf("cursors", 0, "they have version %d; the known one is %d", version, cursorsVersion)
}

// cutLast separates the last line of a text from the lines before.
func cutLast(text string) (before, line string, ok bool) {
	line, ok = strings.CutSuffix(text, "\n")
	at := strings.LastIndexByte(line, '\n') + 1
	return line[:at], line[at:], ok
}

// decodeCursors decodes the file. The error for one of a later version is a base.NewerError.
func decodeCursors(b []byte) (map[string]uint64, error) {
	if err := newerCursors(b, true); err != nil {
		return nil, err
	}
	cursors := map[string]uint64{}
	lines := strings.SplitAfter(string(b), "\n")
	for _, line := range lines[1:max(1, len(lines)-2)] {
		digits, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		at, err := strconv.ParseUint(digits, 10, 64)
		name, unquoteErr := strconv.Unquote(quoted)
		if err != nil || unquoteErr != nil {
			return nil, base.Corruptf("cursors", -1, "the line %q is not a position and a name", line)
		}
		cursors[name] = at
	}
	// Each set of cursors has exactly one encoding, so any other text is damage.
	if string(encodeCursors(cursors)) != string(b) {
		return nil, base.Corruptf("cursors", -1, "the checksum or the title is wrong")
	}
	return cursors, nil
}

// readCursors reads the cursors of a directory. There are none if the file does not exist.
func readCursors(fsys vfs.FS, dir string) (map[string]uint64, error) {
	path := filepath.Join(dir, cursorsName)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]uint64{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil && size > maxCursorFile {
		head := make([]byte, maxCursorName)
		if _, err = vfs.ReadFull(f, head, 0); err == nil || err == io.ErrUnexpectedEOF {
			err = newerCursors(head, false)
		}
		if err == nil {
			err = base.Corruptf("cursors", -1, "the file has %d bytes, more than %d", size, maxCursorFile)
		}
	}
	if err != nil {
		return nil, base.InFile(err, path, -1)
	}
	b := make([]byte, size)
	if _, err := vfs.ReadFull(f, b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	cursors, err := decodeCursors(b)
	return cursors, base.InFile(err, path, -1)
}

// writeCursors replaces the cursors of a directory, durably.
func writeCursors(fsys vfs.FS, dir string, cursors map[string]uint64) error {
	temp := filepath.Join(dir, cursorsName+tempSuffix)
	f, err := vfs.Replace(fsys, temp)
	if err != nil {
		return err
	}
	_, err = f.Write(encodeCursors(cursors))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.CombineErrors(err, f.Close()); err == nil {
		err = fsys.Rename(temp, filepath.Join(dir, cursorsName))
	}
	if err != nil {
		return errors.CombineErrors(err, fsys.Remove(temp))
	}
	return fsys.SyncDir(dir)
}

// SetCursor records the position of a cursor, durably. What comes after it is kept until the cursor
// moves on or is dropped. The position must be one that can be read.
func (a *Archive) SetCursor(name string, position, last uint64) error {
	if name == "" || len(name) > maxCursorName {
		return errors.Newf("sievedb: SetCursor: the name has %d bytes; it must have 1 to %d", len(name), maxCursorName)
	}
	a.cursorMu.Lock()
	defer a.cursorMu.Unlock()
	a.hold(&position)
	defer a.hold(nil)
	if err := a.checkPosition(position, last); err != nil {
		return err
	}
	next := a.Cursors()
	if _, ok := next[name]; !ok && len(next) >= maxCursors {
		return errors.Newf("sievedb: SetCursor: there are %d cursors, which is the limit; drop some", len(next))
	}
	next[name] = position
	return a.replaceCursors(next)
}

// hold keeps the changes that a cursor needs while the cursor is being written.
func (a *Archive) hold(position *uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.setting = position
}

// DropCursor removes a cursor. It does nothing if there is none of that name. If the disk is full, it first removes the
// segments that only this cursor needs, because they may be what fills the disk. After a crash at that point, the
// cursor still exists, but its changes are gone.
func (a *Archive) DropCursor(name string) error {
	a.cursorMu.Lock()
	defer a.cursorMu.Unlock()
	old := a.Cursors()
	next := maps.Clone(old)
	if _, ok := next[name]; !ok {
		return nil
	}
	if a.broken != nil { // the subdirectory may be a link to that of another database
		return a.broken
	}
	delete(next, name)
	err := a.replaceCursors(next)
	if base.IsNoSpace(err) {
		a.setCursors(next)
		if err = a.replaceCursors(next); err != nil {
			a.setCursors(old) // the file still has the cursor
		}
	}
	return err
}

// Cursors returns a copy of the cursors.
func (a *Archive) Cursors() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.cursors)
}

// Close waits until no cursor is being written. Later calls that would write one return ErrClosed.
func (a *Archive) Close() {
	a.cursorMu.Lock()
	defer a.cursorMu.Unlock()
	a.closed = true
}

// replaceCursors replaces the cursors. The changes that the old ones need are kept until the file is written.
func (a *Archive) replaceCursors(next map[string]uint64) error {
	if a.closed {
		return base.ErrClosed
	}
	if err := writeCursors(a.o.FS, a.dir, next); err != nil {
		return errors.Wrap(base.NoSpace(err), "sievedb: writing the cursors")
	}
	a.setCursors(next)
	return nil
}

// setCursors makes next the cursors, and removes the segments that none of them needs.
func (a *Archive) setCursors(next map[string]uint64) {
	a.mu.Lock()
	a.cursors = next
	a.mu.Unlock()
	a.trim()
}
