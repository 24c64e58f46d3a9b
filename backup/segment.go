package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/base/expiry"
)

// mark says that all changes up to a sequence number had been written at a time.
type mark struct {
	at  time.Time
	seq uint64
}

// segmentHead is the first part of a segment, text as that of a manifest. The changes follow it; see docs/backup.md.
type segmentHead struct {
	stream string // its ID
	number uint64 // in the stream, from 1
	// The changes have the numbers from after+1 to last. There is none if both are the same.
	after, last uint64
	previous    string // the checksum of the head of the segment before, empty for the first one
	tables      []file // of loads and ingests: size, sum and by
	marks       []mark // in the order of their numbers; the last one is that of last
	// prefixes are what the database had recorded when it was archived, see db.DB.ExpiryPrefixes. Earlier changes may
	// be from before a prefix was added.
	prefixes [][]byte
	changes  uint64 // how many there are
	size     int64  // of the changes, in bytes
	body     string // the checksum of the changes
	sum      string // the checksum of the head
}

const (
	segmentTitle = "sievedb segment 1"
	// expiryTitle is that of version 2, which has lines about expiry prefixes. Versions of SieveDB that do not know
	// them refuse it: they would restore a database that shows envelopes as values.
	expiryTitle = "sievedb segment 2"
	// segmentSize is the size in bytes of the changes at which a segment ends. maxSegmentHead and
	// maxSegmentBody are the largest parts that are read: the last change may be a batch of db.MaxBatchSize.
	segmentSize    = 8 << 20
	maxSegmentHead = 64 << 20
	maxSegmentBody = db.MaxBatchSize + db.MaxBatchSize/2
)

// segmentName returns the name of the object of a segment. It does not depend on the content, so only one
// of several writers can continue a stream.
func segmentName(stream string, number uint64) string {
	return fmt.Sprintf("%s%s/%012d", segmentPrefix, stream, number)
}

var segmentPattern = regexp.MustCompile(`^segments/([^/]*)/([0-9]{12})$`)

func parseSegment(name string) (stream string, number uint64, ok bool) {
	m := segmentPattern.FindStringSubmatch(name)
	if m == nil || !validID(m[1]) {
		return "", 0, false
	}
	number, err := strconv.ParseUint(m[2], 10, 64)
	return m[1], number, err == nil && number > 0
}

func (h *segmentHead) name() string { return segmentName(h.stream, h.number) }

// encode returns the text of the head, and sets its checksum.
func (h *segmentHead) encode() []byte {
	var b strings.Builder
	title := segmentTitle
	if len(h.prefixes) > 0 {
		title = expiryTitle
	}
	fmt.Fprintf(&b, "%s\nstream %s\nnumber %d\nafter %d\nlast %d\nprevious %s\n",
		title, h.stream, h.number, h.after, h.last, orDash(h.previous))
	fmt.Fprintf(&b, "changes %d %d %s\n", h.changes, h.size, h.body)
	for _, m := range h.marks {
		fmt.Fprintf(&b, "mark %s %d\n", m.at.UTC().Format(idLayout), m.seq)
	}
	for _, p := range h.prefixes {
		fmt.Fprintf(&b, "expiry %q\n", p)
	}
	for _, f := range h.tables {
		fmt.Fprintf(&b, "table %d %s %s\n", f.size, f.sum, f.by)
	}
	return sealed(&b, &h.sum)
}

// sealed returns the text with its checksum as the last line.
func sealed(b *strings.Builder, sum *string) []byte {
	of := sha256.Sum256([]byte(b.String()))
	*sum = hex.EncodeToString(of[:])
	fmt.Fprintf(b, "sum %s\n", *sum)
	return []byte(b.String())
}

// readHead reads the head of a segment, and nothing after it.
func readHead(r *bufio.Reader) (*segmentHead, error) {
	var text bytes.Buffer
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF || errors.Is(err, bufio.ErrBufferFull) || text.Len()+len(line) > maxSegmentHead {
			return nil, base.Corruptf("segment", int64(text.Len()), "its head has no end")
		}
		if err != nil {
			return nil, err
		}
		if text.Len() == 0 && string(line) != segmentTitle+"\n" && string(line) != expiryTitle+"\n" {
			return nil, versionFault("segment", string(line), expiryTitle)
		}
		text.Write(line)
		if bytes.HasPrefix(line, []byte("sum ")) {
			return parseHead(text.String())
		}
	}
}

func parseHead(text string) (*segmentHead, error) {
	body, sum, ok := cutSum(text)
	if got := sha256.Sum256([]byte(body)); !ok || hex.EncodeToString(got[:]) != sum {
		return nil, base.Corruptf("segment", -1, "the last line of its head is not the checksum of the others")
	}
	title, rest, _ := strings.Cut(body, "\n")
	r := fieldReader{what: "segment", rest: rest}
	h := &segmentHead{sum: sum, stream: r.line("stream")}
	h.number = r.number("number", r.line("number"))
	h.after = r.number("after", r.line("after"))
	h.last = r.number("last", r.line("last"))
	if h.previous = r.line("previous"); h.previous == "-" {
		h.previous = ""
	}
	r.body(h)
	for r.err == nil && strings.HasPrefix(r.rest, "mark ") {
		h.marks = append(h.marks, r.mark("mark"))
	}
	for r.err == nil && strings.HasPrefix(r.rest, "expiry ") {
		h.prefixes = append(h.prefixes, []byte(r.quoted("expiry")))
	}
	if title == expiryTitle != (len(h.prefixes) > 0) {
		r.fail("%q has %d lines about expiry", title, len(h.prefixes))
	}
	for r.err == nil && r.rest != "" {
		h.tables = append(h.tables, r.table())
	}
	if r.err == nil {
		r.err = h.check()
	}
	return h, r.err
}

// words returns the n words of the next line after the first one.
func (r *fieldReader) words(word string, n int) []string {
	words := strings.Split(r.line(word), " ")
	if len(words) != n {
		r.fail("the line %q has %d words; want %d", word, len(words), n)
		return make([]string, n)
	}
	return words
}

func (r *fieldReader) body(h *segmentHead) {
	w := r.words("changes", 3)
	if r.err == nil {
		h.changes, h.size, h.body = r.number("changes", w[0]), r.size("changes", w[1]), w[2]
	}
	if h.size > maxSegmentBody {
		r.fail("its changes have %d bytes; at most %d are supported", h.size, int64(maxSegmentBody))
	}
}

func (r *fieldReader) mark(word string) (m mark) {
	w := r.words(word, 2)
	if r.err == nil {
		m = mark{r.time(word, w[0]), r.number(word, w[1])}
	}
	return m
}

func (r *fieldReader) time(word, value string) time.Time {
	t, err := time.Parse(idLayout, value)
	if err != nil || t.Format(idLayout) != value {
		r.fail("the value of %q is not a time", word)
	}
	return t
}

// stream reads the line of a manifest about its stream.
func (r *fieldReader) stream() (id string, noted time.Time) {
	w := r.words("stream", 2)
	if r.err != nil {
		return "", noted
	}
	if !validID(w[0]) {
		r.fail("the stream %q is not an ID", w[0])
	}
	return w[0], r.time("stream", w[1])
}

func (r *fieldReader) table() (f file) {
	w := r.words("table", 3)
	if r.err != nil {
		return f
	}
	f = file{name: "table", size: r.size("table", w[0]), sum: w[1], by: w[2]}
	if _, _, ok := parseObject(objectPrefix + f.sum[:min(2, len(f.sum))] + "/" + f.sum + "-" + f.by); !ok {
		r.fail("a table has no valid checksum or ID")
	}
	return f
}

// check looks for contradictions.
func (h *segmentHead) check() error {
	rising := slices.IsSortedFunc(h.marks, func(a, b mark) int { return cmp.Compare(a.seq, b.seq) })
	switch {
	case !validID(h.stream) || h.number == 0:
		return base.Corruptf("segment", -1, "%q is not an ID, or its number is 0", h.stream)
	case h.after > h.last || h.last > base.MaxSeq || h.changes == 0 != (h.after == h.last):
		return base.Corruptf("segment", -1, "it has %d changes with the numbers after %d to %d", h.changes, h.after, h.last)
	case len(h.marks) == 0 || h.marks[len(h.marks)-1].seq != h.last || h.marks[0].seq < h.after || !rising:
		return base.Corruptf("segment", -1, "the numbers of its marks are not from after %d to %d", h.after, h.last)
	case !slices.EqualFunc(h.prefixes, expiry.Normal(h.prefixes), bytes.Equal):
		return base.Corruptf("segment", -1, "its expiry prefixes are not in order, or one begins with another")
	}
	return nil
}

// segmentHead reads the head of a segment.
func (r *Repository) segmentHead(ctx context.Context, stream string, number uint64) (h *segmentHead, err error) {
	err = r.openSegment(ctx, stream, number, func(got *segmentHead, _ io.Reader) error {
		h = got
		return nil
	})
	return h, err
}

// segment is a segment in memory.
type segment struct {
	*segmentHead
	content []byte // the changes
}

// segment reads a segment and compares its checksums.
func (r *Repository) segment(ctx context.Context, stream string, number uint64) (s *segment, err error) {
	err = r.openSegment(ctx, stream, number, func(h *segmentHead, rest io.Reader) error {
		content, err := io.ReadAll(atMost(rest, h.size)) // the memory grows with what is there
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(content); int64(len(content)) != h.size || hex.EncodeToString(sum[:]) != h.body {
			return base.Corruptf("segment", -1, "its changes have %d bytes with SHA-256 %x; want %d bytes with %s",
				len(content), sum, h.size, h.body)
		}
		s = &segment{h, content}
		return nil
	})
	return s, err
}

// openSegment reads the head of a segment, and then calls use with the rest.
func (r *Repository) openSegment(ctx context.Context, stream string, number uint64,
	use func(*segmentHead, io.Reader) error) error {
	name := segmentName(stream, number)
	o, err := r.storage.Open(ctx, name)
	if err != nil {
		return errors.Wrapf(err, "sievedb: backup: opening %s", name)
	}
	defer o.Close()
	rest := bufio.NewReader(withContext{ctx, o})
	h, err := readHead(rest)
	if err == nil && h.name() != name {
		err = base.Corruptf("segment", -1, "it is segment %d of stream %s", h.number, h.stream)
	}
	if err == nil {
		err = use(h, rest)
	}
	return errors.Wrapf(base.InFile(err, name, -1), "sievedb: backup: reading %s", name)
}

// numbers returns the numbers of the segments of a stream, ascending.
func (r *Repository) numbers(ctx context.Context, stream string) (all []uint64, err error) {
	for o, err := range r.storage.List(ctx, segmentPrefix+stream+"/") {
		if err != nil {
			return nil, errors.Wrapf(err, "sievedb: backup: listing the segments of stream %s", stream)
		}
		if of, number, ok := parseSegment(o.Name); ok && of == stream {
			all = append(all, number)
		}
	}
	slices.Sort(all)
	return all, nil
}
