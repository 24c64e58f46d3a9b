package backup_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// aSegment returns a segment with changes of all kinds, and its stream.
func aSegment(t testing.TB) (name string, segment []byte, id string, stream []byte) {
	storage := backuptest.NewMem()
	l := newTimeline(t, vfs.NewMem(), storage)
	l.archive()
	l.put("key", "value")
	l.load([]string{"key1", "key2"}, "loaded")
	l.ingest([]string{"key3", "key4"}, "ingested")
	l.deleteRange("key1", "key3", "own", "value")
	require.NoError(t, l.d.DeleteRange(background, nil, nil, nil))
	l.archive()
	require.NoError(t, l.d.Close())
	name, id = storage.Names("segments/")[0], storage.Names("streams/")[0]
	return name, storage.Objects()[name], strings.TrimPrefix(id, "streams/"), storage.Objects()[id]
}

// cutHead divides a segment into the lines of its head without the checksum, and its changes.
func cutHead(segment []byte) (head string, changes []byte) {
	at := bytes.Index(segment, []byte("\nsum ")) + 1
	end := at + bytes.IndexByte(segment[at:], '\n') + 1
	return string(segment[:at]), segment[end:]
}

// A segment that was changed is refused, even if its checksums are right.
func TestMalformedSegmentsAreRefused(t *testing.T) {
	_, segment, id, stream := aSegment(t)
	again := result.Of(backup.SegmentAgain(segment))(t)
	require.Equal(t, segment, again)
	again = result.Of(backup.StreamAgain(stream, id))(t)
	require.Equal(t, stream, again)
	require.Error(t, result.Err(backup.StreamAgain(stream, "another")))

	head, changes := cutHead(segment)
	require.Contains(t, head, "\nchanges 5 ")
	for old, changed := range map[string]string{
		`segment 2`:           "segment 1",
		`\nexpiry "ttl"`:      "",
		`expiry "ttl"`:        "expiry ttl",
		`(expiry "ttl")`:      "$1\n$1",
		`stream \S+`:          "stream ../../etc",
		`number 1`:            "number 0",
		`after 0`:             "after 00",
		`last \d+`:            "last 0",
		`changes 5 `:          "changes 6 ",
		`changes 5 \d+ `:      "changes 5 9999999999 ",
		`mark \S+ `:           "mark yesterday ",
		`(mark \S+) \d+`:      "$1 7",
		`(?s)\nmark.*?\nexp`:  "\nexp",
		`table \d+ \S+`:       "table 17 abc",
		`table \d+`:           "table -1",
		`(?s)\ntable .*\n`:    "\n",
		`previous -`:          "before -",
		`(mark \S+ \d+\n)exp`: "${1}seal",
	} {
		other := regexp.MustCompile(old).ReplaceAllString(head, changed)
		require.NotEqual(t, head, other, old)
		_, err := backup.SegmentAgain(append([]byte(withSum(other)), changes...))
		require.Error(t, err, changed)
		require.NotContains(t, err.Error(), "last line", changed)
	}
	for i := range len(segment) {
		require.Error(t, result.Err(backup.SegmentAgain(segment[:i])), i)
	}
	for i := range changes {
		forged := bytes.Clone(changes)
		forged[i] = 0xff
		_, _ = backup.SegmentAgain(append([]byte(withSum(head)), forged...)) // no panic
	}
	for i := range len(stream) {
		require.Error(t, result.Err(backup.StreamAgain(stream[:i], id)), i)
	}
}

// Changes that decode but are no changes of a database are refused by the restore, and nothing opens.
func TestForgedChangesAreNotRestored(t *testing.T) {
	storage := backuptest.NewMem()
	l := newTimeline(t, vfs.NewMem(), storage)
	l.archive()
	l.put("key", "value")
	last := l.archive().Last
	name := storage.Names("segments/")[0]
	head, changes := cutHead(storage.Objects()[name])
	sum := regexp.MustCompile(`(changes 1 \d+ )\S+`)
	forge := func(changes []byte) []byte {
		return append([]byte(withSum(sum.ReplaceAllString(head, "${1}"+fmt.Sprintf("%x", sha(changes))))), changes...)
	}
	storage.Replace(name, forge(changes))
	require.Equal(t, map[string]string{"key": "value"}, l.at(backup.Point{Sequence: last}))
	for at := range changes {
		forged := bytes.Clone(changes)
		forged[at] ^= 0x10
		storage.Replace(name, forge(forged))
		mem := vfs.NewMem()
		_, err := l.repo.RestoreAt(background, "", backup.Point{Sequence: last}, "restored", &backup.RestoreOptions{FS: mem})
		if err != nil {
			names := result.Of(mem.List("."))(t)
			require.Empty(t, names)
		}
	}
	// A larger object than the head says is not read into memory.
	storage.Replace(name, append(forge(changes), make([]byte, 1<<20)...))
	require.ErrorIs(t, result.Err(l.tryAt("", backup.Point{Sequence: last})), db.ErrCorruption)
}

// forgeChanges replaces the changes of a segment with one change.
func forgeChanges(segment, change []byte) []byte {
	head, _ := cutHead(segment)
	line := regexp.MustCompile(`changes .*`).ReplaceAllString(head, fmt.Sprintf("changes 1 %d %x", len(change), sha(change)))
	return append([]byte(withSum(line)), change...)
}

// oneSegment returns a timeline with a segment of one change, and its name.
func oneSegment(t *testing.T, storage *backuptest.Mem, change func(l *timeline)) (l *timeline, name string) {
	l = newTimeline(t, vfs.NewMem(), storage)
	for i := range 30 {
		l.put(fmt.Sprintf("key%02d", i), "value")
	}
	l.archive()
	change(l)
	l.archive()
	return l, storage.Names("segments/")[0]
}

// A change with very many small ranges does not need many times its size in memory, and all of them are deleted.
func TestManyRangesNeedLittleMemory(t *testing.T) {
	storage := backuptest.NewMem()
	l, name := oneSegment(t, storage, func(l *timeline) { l.put("key", "value") })
	last := l.d.Metrics().LastSequence
	change := func(ranges int, text string) []byte {
		b := util.AppendUvarint64([]byte{byte(db.ChangeDeleteRange)}, last)
		b = util.AppendUvarint64(util.AppendUvarint64(b, last), uint64(ranges))
		return append(append(b, text...), 0, 0)
	}
	const ranges = 1 << 20
	forged := forgeChanges(storage.Objects()[name], change(ranges, strings.Repeat("\x00", ranges)))
	storage.Replace(name, forged)
	before := damage.Allocated()
	verifyClean(t, l.repo)
	require.Less(t, damage.Allocated()-before, uint64(12*ranges))

	// Ranges of one key each, from the last batch to the first one.
	var text strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&text, "\x03\x05key%02d\x06key%02d\x00", i%20, i%20)
	}
	storage.Replace(name, forgeChanges(forged, change(2500, text.String())))
	got := l.at(backup.Point{Sequence: last})
	require.Len(t, got, 10)
	require.NotContains(t, got, "key19")
	require.Contains(t, got, "key20")
}

// A table of a segment belongs to one change, which has nothing else.
func TestTablesOfASegmentAreUsedOnce(t *testing.T) {
	storage := backuptest.NewMem()
	l, name := oneSegment(t, storage, func(l *timeline) { l.load([]string{"loaded"}, "value") })
	segment, last := storage.Objects()[name], l.d.Metrics().LastSequence
	for text, valid := range map[string]bool{
		"\x00\x00\x01\x00":         true,
		"\x00\x00\x00":             false, // unused
		"\x00\x00\x01\x01":         false, // there is one
		"\x00\x00\x02\x00\x00":     false, // used twice
		"\x01\x00\x00\x01\x00":     false, // and a deleted range
		"\x00\x01x\x01\x00":        false, // and a record
		"\x00\x00\x01\x00\x00":     false, // another byte
		"\x00\x00\x01\x80\x80\x00": true,
	} {
		b := util.AppendUvarint64(util.AppendUvarint64([]byte{byte(db.ChangeLoad)}, last), last)
		storage.Replace(name, forgeChanges(segment, append(b, text...)))
		report := result.Of(l.repo.Verify(background))(t)
		require.Equal(t, valid, len(report.Faults) == 0, "%q: %v", text, report.Faults)
	}
}

func FuzzStream(f *testing.F) {
	_, _, id, stream := aSegment(f)
	f.Add(string(stream[:bytes.Index(stream, []byte("sum "))]))
	f.Add("sievedb stream 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		again, err := backup.StreamAgain([]byte(withSum(text)), id)
		if err == nil {
			require.Equal(t, withSum(text), string(again))
		}
		_, _ = backup.StreamAgain([]byte(text), id)
	})
}

func FuzzSegment(f *testing.F) {
	_, segment, _, _ := aSegment(f)
	head, changes := cutHead(segment)
	f.Add(head, changes)
	f.Add("sievedb segment 1\n", []byte{})
	f.Add(strings.Replace(head, "\nexpiry ", "\nexpiry \"a\"\nexpiry ", 1), changes)
	f.Fuzz(func(t *testing.T, head string, changes []byte) {
		sealed := append([]byte(withSum(head)), changes...)
		again, err := backup.SegmentAgain(sealed)
		if err == nil {
			twice := result.Of(backup.SegmentAgain(again))(t)
			require.Equal(t, again, twice)
		}
		_, _ = backup.SegmentAgain(append([]byte(head), changes...))
	})
}
