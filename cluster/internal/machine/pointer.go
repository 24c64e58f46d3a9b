package machine

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/vfs"
)

const (
	pointerName   = "STATE"
	pointerTemp   = "STATE.tmp"
	creatingWord  = "creating "
	statePrefix   = "state-"
	sendPrefix    = "send-"
	maxPointerLen = 100
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var dirPattern = regexp.MustCompile(`^(?:state|send)-([0-9]{6,18})(?:\.checkpoint)?$`)

// dirNumber returns the number of a directory that the machine made.
func dirNumber(name string) (n uint64, ok bool) {
	match := dirPattern.FindStringSubmatch(name)
	if match == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(match[1], 10, 64)
	return n, err == nil
}

// pointer is the content of STATE.
type pointer struct {
	name     string // "": there is no STATE
	creating bool   // the state was never in use
}

func (p pointer) String() string {
	text := p.name
	if p.creating {
		text = creatingWord + text
	}
	return fmt.Sprintf("%s %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
}

func parsePointer(b []byte) (pointer, error) {
	text, sum, _ := strings.Cut(strings.TrimPrefix(string(b), creatingWord), " ")
	p := pointer{name: text, creating: strings.HasPrefix(string(b), creatingWord)}
	if !strings.HasPrefix(text, statePrefix) || !dirPattern.MatchString(text) || strings.Contains(text, ".") || sum == "" || p.String() != string(b) {
		return pointer{}, fmt.Errorf("%s is damaged", pointerName)
	}
	return p, nil
}

// readPointer reads STATE of a directory.
func readPointer(fsys vfs.FS, dir string) (p pointer, err error) {
	b, err := files.Read(fsys, filepath.Join(dir, pointerName), maxPointerLen)
	if errors.Is(err, fs.ErrNotExist) {
		return pointer{}, nil
	}
	if err != nil {
		return pointer{}, err
	}
	return parsePointer(b)
}

// writePointer replaces STATE. If maybe is true after an error, STATE may have been replaced.
func writePointer(fsys vfs.FS, dir string, p pointer) (maybe bool, err error) {
	return files.Replace(fsys, filepath.Join(dir, pointerName), filepath.Join(dir, pointerTemp), []byte(p.String()))
}
