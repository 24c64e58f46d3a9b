package changes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// Kind says what a change is.
type Kind uint8

// The kinds of changes. All but Batch have a file of their own.
const (
	Batch Kind = iota
	Load
	Ingest
	DeleteRange
	// Skipped stands for changes without an entry that the reader wants.
	Skipped
)

// suffixes are the ends of the names of segments, by kind.
var suffixes = [...]string{Batch: ".log", Load: ".load", Ingest: ".ingest", DeleteRange: ".delete"}

const (
	pendingSuffix = ".pending"
	cursorsName   = "CURSORS"
	tempSuffix    = ".tmp"
	copySuffix    = ".copying" // left by a crash during a move from another file system; see package dbdir
)

// unknown stands for the last number of a log to which records may still be appended.
const unknown = math.MaxUint64

// segment is a part of the history: a log, or a change with a file of its own.
type segment struct {
	kind  Kind
	first uint64 // sequence numbers
	// logged is the last number in a record that counts. It is below first if there is none.
	logged uint64
	// last is the last number of the segment: the next one begins with last+1. It is above logged if the last writes
	// failed.
	last uint64

	path    string
	size    uint64 // with the linked tables
	at      time.Time
	tables  []string // the paths of linked tables
	live    uint64   // the number of a log in the directory of the database; 0 for others
	fs      vfs.FS   // of a log in the directory of the database, if it is another one
	pending bool
}

// name returns the file name of a segment in the subdirectory.
func (s *segment) name() string {
	numbers := fmt.Sprintf("%d-%d", s.first, s.last)
	if s.logged != s.last {
		numbers = fmt.Sprintf("%d-%d-%d", s.first, s.logged, s.last)
	}
	if s.pending {
		return numbers + suffixes[s.kind] + pendingSuffix
	}
	return numbers + suffixes[s.kind]
}

// parseName is the inverse of name.
func parseName(name string) (s *segment, ok bool) {
	s = &segment{}
	rest, pending := strings.CutSuffix(name, pendingSuffix)
	s.pending = pending
	kind := slices.IndexFunc(suffixes[:], func(suffix string) bool { return strings.HasSuffix(rest, suffix) })
	if kind < 0 {
		return nil, false
	}
	s.kind = Kind(kind)
	var numbers []uint64
	for _, digits := range strings.Split(strings.TrimSuffix(rest, suffixes[kind]), "-") {
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > base.MaxSeq {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	switch len(numbers) {
	case 2:
		s.first, s.logged, s.last = numbers[0], numbers[1], numbers[1]
	case 3:
		s.first, s.logged, s.last = numbers[0], numbers[1], numbers[2]
	default:
		return nil, false
	}
	valid := s.first > 0 && s.first <= s.last && s.logged <= s.last && s.logged+1 >= s.first
	// One name for one segment: 1-1 and 01-1 are not both accepted.
	return s, valid && s.name() == name
}

// chain returns the newest segments that follow one another without a gap.
func chain(segments []*segment) []*segment {
	slices.SortFunc(segments, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	begin := max(len(segments)-1, 0)
	for begin > 0 && segments[begin-1].last+1 == segments[begin].first {
		begin--
	}
	return segments[begin:]
}

// overlaps reports whether a number is in both segments.
func (s *segment) overlaps(other *segment) bool {
	return s.first <= other.last && other.first <= s.last
}

// GoneError says that the changes after a position cannot be read.
type GoneError struct {
	Since  uint64 // the position
	Oldest uint64 // the oldest existing position
	Why    string
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("sievedb: the changes after position %d are not there any more; the oldest position is %d: %s", e.Since, e.Oldest, e.Why)
}

// Unwrap makes the error match ErrGone.
func (e *GoneError) Unwrap() error { return ErrGone }

var (
	// ErrGone matches each *GoneError.
	ErrGone = errors.Sentinel("sievedb: the changes are not there any more")
	// ErrAhead says that a position is beyond the last change.
	ErrAhead = errors.Sentinel("sievedb: the position is beyond the last change")
)

// whyGone is the usual reason.
const whyGone = "copy the database, for example by DB.Checkpoint, and continue from the position of the copy; " +
	"Options.Changes says how much is kept"
