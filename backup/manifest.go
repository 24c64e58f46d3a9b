package backup

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
)

// Info describes a backup.
type Info struct {
	ID string
	// Database is CreateOptions.Database.
	Database string
	// Time is when the backup began, in UTC, by the clock of its machine.
	Time time.Time
	// Sequence is the last sequence number that the backup contains.
	Sequence uint64
	// Stream is the ID of the stream of segments that continues the backup, empty if none does. Noted is
	// a time at which all of the backup, and perhaps more, had been written.
	Stream string
	Noted  time.Time
	// Comparer is the name of the database's comparer, Engine the version of SieveDB that made it.
	Comparer, Engine string
	// Files and Bytes count what the backup consists of. BytesStored are in the objects that it
	// added to the repository.
	Files              int
	Bytes, BytesStored int64
}

// file is a file of a backup.
type file struct {
	name string // in the database's directory
	size int64
	sum  string // SHA-256 of the file, in hexadecimal
	by   string // ID of the backup that stored the object
	// identity is sstable.Identify of a table in hexadecimal, or empty if it has none.
	identity string
}

func (f *file) object() string { return objectName(f.sum, f.by) }

// manifest is the content of a backup's object, described in docs/backup.md.
type manifest struct {
	Info
	files []file
}

// manifestHead begins the text of version 1, streamHead that of version 2, which has a line about a stream, and
// valuesHead that of version 3, which has value tables and may have that line. Versions of SieveDB that do not know
// streams or value tables refuse it, and do not prune the repository.
const (
	manifestHead = "sievedb backup 1"
	streamHead   = "sievedb backup 2"
	valuesHead   = "sievedb backup 3"
)

// maxBytes is the largest size of a file and of all files of a backup that is believed.
const maxBytes = math.MaxInt64 / 2

// maxManifest is the largest manifest that is read, in bytes: ten million files.
const maxManifest = 2 << 30

func (m *manifest) encode() []byte {
	var b strings.Builder
	head := manifestHead
	if m.Stream != "" {
		head = streamHead
	}
	if slices.ContainsFunc(m.files, func(f file) bool { return isValueTable(f.name) }) {
		head = valuesHead
	}
	fmt.Fprintf(&b, "%s\nid %s\ndatabase %q\nengine %q\ncomparer %q\nsequence %d\nstored %d\n",
		head, m.ID, m.Database, m.Engine, m.Comparer, m.Sequence, m.BytesStored)
	if m.Stream != "" {
		fmt.Fprintf(&b, "stream %s %s\n", m.Stream, m.Noted.Format(idLayout))
	}
	for _, f := range m.files {
		fmt.Fprintf(&b, "file %s %d %s %s %s\n", f.name, f.size, f.sum, f.by, orDash(f.identity))
	}
	sum := sha256.Sum256([]byte(b.String()))
	fmt.Fprintf(&b, "sum %x\n", sum)
	return []byte(b.String())
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// fieldReader reads the lines of a manifest. The first error sticks.
type fieldReader struct {
	what string // is read; empty for a manifest
	rest string
	err  error
}

func (r *fieldReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = base.Corruptf(cmp.Or(r.what, "backup manifest"), -1, format, args...)
	}
}

// line returns the rest of the next line, which must begin with that word.
func (r *fieldReader) line(word string) string {
	line, rest, ok := strings.Cut(r.rest, "\n")
	value, named := strings.CutPrefix(line, word+" ")
	if !ok || !named {
		r.fail("the line %q is missing", word)
		return ""
	}
	r.rest = rest
	return value
}

func (r *fieldReader) quoted(word string) string {
	value := r.line(word)
	s, err := strconv.Unquote(value)
	if err != nil || strconv.Quote(s) != value {
		r.fail("the value of %q is not a quoted string", word)
	}
	return s
}

func (r *fieldReader) number(word, value string) uint64 {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != value {
		r.fail("the value of %q is not a number", word)
	}
	return n
}

func (r *fieldReader) size(word, value string) int64 {
	n := r.number(word, value)
	if n > maxBytes {
		r.fail("the value of %q is %d bytes", word, n)
		return 0
	}
	return int64(n)
}

// decodeManifest reads the manifest of the backup id.
func decodeManifest(text []byte, id string) (*manifest, error) {
	m, err := parseManifest(string(text))
	if err == nil && m.ID != id {
		err = base.Corruptf("backup manifest", -1, "it is that of backup %s", m.ID)
	}
	return m, err
}

func parseManifest(text string) (*manifest, error) {
	head, _, _ := strings.Cut(text, "\n")
	if head != manifestHead && head != streamHead && head != valuesHead {
		return nil, versionFault("backup manifest", head, valuesHead)
	}
	body, sum, ok := cutSum(text)
	if got := sha256.Sum256([]byte(body)); !ok || hex.EncodeToString(got[:]) != sum {
		return nil, base.Corruptf("backup manifest", -1, "its last line is not the checksum of the others")
	}
	r := fieldReader{rest: body[len(head)+1:]}
	m := &manifest{Info: Info{
		ID: r.line("id"), Database: r.quoted("database"), Engine: r.quoted("engine"), Comparer: r.quoted("comparer"),
		Sequence:    r.number("sequence", r.line("sequence")),
		BytesStored: r.size("stored", r.line("stored")),
	}}
	if m.Time, ok = timeOf(m.ID); !ok {
		r.fail("%q is not an ID", m.ID)
	}
	if head == streamHead || head == valuesHead && strings.HasPrefix(r.rest, "stream ") {
		m.Stream, m.Noted = r.stream()
	}
	seen := map[string]bool{}
	for r.err == nil && r.rest != "" {
		f := r.file()
		if seen[f.name] {
			r.fail("it has file %s twice", f.name)
		}
		if isValueTable(f.name) && head != valuesHead {
			r.fail("it has value table %s, which a backup of this version cannot have", f.name)
		}
		seen[f.name] = true
		m.files = append(m.files, f)
		m.Files++
		if m.Bytes += f.size; m.Bytes > maxBytes {
			r.fail("its files have %d bytes; at most %d are supported", m.Bytes, int64(maxBytes))
		}
	}
	if !seen[base.CurrentName] {
		r.fail("it has no file CURRENT")
	}
	return m, r.err
}

// cutSum divides the text of a manifest into the lines before the last one, and its checksum.
func cutSum(text string) (body, sum string, ok bool) {
	const length = len("sum ") + 2*sha256.Size + len("\n")
	if len(text) < length {
		return "", "", false
	}
	body, last := text[:len(text)-length], text[len(text)-length:]
	sum, ok = strings.CutPrefix(strings.TrimSuffix(last, "\n"), "sum ")
	return body, sum, ok && strings.HasSuffix(body, "\n") && strings.HasSuffix(last, "\n")
}

// file reads a line about a file. Its name must be one of a database's files, so that it
// cannot lead to another directory.
func (r *fieldReader) file() (f file) {
	words := strings.Split(r.line("file"), " ")
	if len(words) != 5 {
		r.fail("a line about a file has %d words; want 5", len(words))
		return f
	}
	f = file{name: words[0], size: r.size("file", words[1]), sum: words[2], by: words[3], identity: words[4]}
	if !isBackedUp(f.name) {
		r.fail("%q is not the name of a database's file", f.name)
	}
	if _, _, ok := parseObject(objectPrefix + f.sum[:min(2, len(f.sum))] + "/" + f.sum + "-" + f.by); !ok {
		r.fail("file %s has no valid checksum or ID", f.name)
	}
	if f.identity == "-" {
		f.identity = ""
	} else if b, err := hex.DecodeString(f.identity); err != nil || len(b) != sha256.Size ||
		hex.EncodeToString(b) != f.identity {
		r.fail("file %s has an identity that is not a checksum", f.name)
	}
	return f
}

// isBackedUp reports whether a file of a checkpoint belongs into a backup. Only LOCK, which is empty, does not.
func isBackedUp(name string) bool {
	kind, _, ok := base.ParseFileName(name)
	return ok && kind != base.FileLock && kind != base.FileTemp
}

// isValueTable reports whether it is the name of a value table.
func isValueTable(name string) bool {
	kind, _, ok := base.ParseFileName(name)
	return ok && kind == base.FileValues
}

// isTable reports whether it is the name of a table.
func isTable(name string) bool {
	kind, _, ok := base.ParseFileName(name)
	return ok && kind.IsTable()
}
