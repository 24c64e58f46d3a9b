package report

import (
	"fmt"
	"strings"
	"time"
)

// writeSum writes the last line of an explanation.
func (s *Explanation) writeSum(b *strings.Builder) {
	answer := "not found"
	switch {
	case s.Found:
		answer = "found"
	case s.Deleted:
		answer = "deleted"
	case s.Expired:
		answer = "expired"
	}
	fmt.Fprintf(b, "%s: %s (%d bytes), %d saved by filters, %d wasted", answer,
		counted(uint64(s.DiskReads), "disk read"), s.BytesRead, s.ReadsSaved, s.ReadsWasted)
	if s.OpeningReads > 0 {
		fmt.Fprintf(b, "; %s (%d bytes) to open tables", counted(s.OpeningReads, "read"), s.OpeningBytes)
	}
	fmt.Fprintf(b, "; %s\n", s.Duration)
}

// indent is the width of the runs' names.
const indent = 24

// write writes the lines of a step.
func (s *ExplainStep) write(b *strings.Builder) {
	where, outcome, verdict := s.Run, "not here", s.Filter
	switch {
	case s.Level >= 0:
		where = fmt.Sprintf("level %d table %06d", s.Level, s.FileNum)
	case s.FileNum > 0:
		where = fmt.Sprintf("%s %06d", s.Run, s.FileNum)
	}
	if s.Found {
		outcome = "found"
	}
	if s.FilterPolicy != "" {
		verdict += " by " + s.FilterPolicy
	}
	fmt.Fprintf(b, "%-*s filter: %-7s %s, %s\n", indent, where, verdict, outcome, s.Duration)
	if s.FileNum > 0 {
		fmt.Fprintf(b, "%*s %d bytes, keys %s to %s\n", indent, "", s.Bytes, shortKey(s.Smallest), shortKey(s.Largest))
		fmt.Fprintf(b, "%*s %s\n", indent, "", strings.Join(s.work(), ", "))
	}
}

// work describes the work in a table, in order.
func (s *ExplainStep) work() []string {
	var did []string
	add := func(took time.Duration, format string, args ...any) {
		did = append(did, fmt.Sprintf(format, args...)+" "+took.String())
	}
	if s.Opened {
		add(s.OpenTime, "opened by %s (%d bytes)", counted(s.OpeningReads, "read"), s.OpeningBytes)
	}
	add(s.FilterTime, "filter")
	switch {
	case s.IndexRead:
		add(s.IndexTime, "index read from disk (%d bytes)", s.IndexBytes)
	case s.IndexSearched:
		add(s.IndexTime, "index from memory")
	}
	switch {
	case s.BlockFromDisk:
		add(s.SearchTime, "data block from disk (%d bytes)", s.BytesRead-s.IndexBytes)
	case s.BlockFromCache:
		add(s.SearchTime, "data block from cache (%d bytes in the file)", s.BlockBytes)
	case s.IndexSearched:
		add(s.SearchTime, "no data block")
	}
	return did
}

// counted returns n with its noun, in the plural unless n is one.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shortKey quotes a key, or the beginning of a long one.
func shortKey(key []byte) string {
	const most = 32
	if len(key) <= most {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q…", key[:most])
}
