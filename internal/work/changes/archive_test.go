package changes

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// The history is the same while the database is open, after it was opened again, and for a reader that only has the
// directory.
func TestAllKindsOfChanges(t *testing.T) {
	s := filled(t, vfs.NewMem())
	for range 2 {
		for i, at := range []uint64{0, 2, 3, 103, 105, 205, 305} {
			s.requireRead(at, filledChanges[i:]...)
			got := result.Of(readAll(NewDirectory(s.fsys, "db", nil), s.fsys, at, s.seq, nil))(t)
			require.Equal(t, filledChanges[i:], got)
		}
		s.requireRead(1, filledChanges...)      // in the middle of a batch: all of it
		s.requireRead(50, filledChanges[2:]...) // and of a load
		require.NoError(t, s.open())
	}
	segments, size := s.a.Kept()
	require.Equal(t, 6, segments)
	require.Positive(t, size)
	require.Equal(t, []string{
		"000501.ldb", "000502.ldb", "1-3.log", "104-105.log", "106-205.ingest", "206-305.delete", "306-306.log", "4-103.load",
	}, s.names())
}

func TestRetentionByBytes(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Bytes = 250
	require.NoError(t, s.open())
	for range 10 {
		s.put(strings.Repeat("k", 50))
		require.NoError(t, s.flush())
		_, size := s.a.Kept()
		require.LessOrEqual(t, size, s.o.Bytes)
	}
	oldest := result.Of(s.a.Oldest())(t)
	require.Greater(t, oldest, uint64(5))
	require.Less(t, oldest, uint64(10))
	s.requireGone(oldest-1, oldest)
	got := result.Of(s.read(oldest))(t)
	require.Len(t, got, int(10-oldest))
	s.o.Bytes = 1
	require.NoError(t, s.open())
	s.requireGone(9, 10)
	require.Empty(t, s.names())
}

func TestRetentionByAge(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Age = time.Hour
	require.NoError(t, s.open())
	for range 3 {
		s.put("a")
		require.NoError(t, s.flush())
		s.now = s.now.Add(25 * time.Minute)
	}
	s.requireRead(0, "a", "a", "a")
	require.NoError(t, s.load(DeleteRange, Event{Ranges: []Range{{}}}))
	s.now = s.now.Add(20 * time.Minute)
	s.put("b")
	s.requireRead(0, "a", "a", "a", ".delete ..", "b") // it is looked at with the next flush
	require.NoError(t, s.flush())
	s.requireGone(1, 2)
	s.requireRead(2, "a", ".delete ..", "b")
}

// The bug: after another program had removed a log, all later ones stayed where they were until the next opening.
func TestALogThatIsGoneKeepsNoLaterOneFromTheArchive(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Bytes = 250
	require.NoError(t, s.open())
	s.put("a")
	require.NoError(t, s.fsys.Remove(s.path()))
	require.ErrorIs(t, s.flush(), fs.ErrNotExist)
	for range 10 {
		s.put(strings.Repeat("k", 50))
		require.NoError(t, s.flush())
		if s.seq == 2 {
			require.ErrorContains(t, result.Err(s.read(0)), "was removed")
			s.requireRead(1, strings.Repeat("k", 50))
		}
	}
	_, size := s.a.Kept()
	require.LessOrEqual(t, size, s.o.Bytes)
}

// A log that is flushed while the clock is ahead does not keep all later ones until that time.
func TestRetentionByAgeAfterAWrongClock(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Age = time.Hour
	require.NoError(t, s.open())
	const wrong = 1000 * time.Hour
	for i := range 8 {
		if s.put("a"); i == 2 {
			s.now = s.now.Add(wrong)
		}
		require.NoError(t, s.flush())
		if i == 2 {
			s.now = s.now.Add(-wrong)
		}
		s.now = s.now.Add(25 * time.Minute)
	}
	require.Equal(t, uint64(5), result.Of(s.a.Oldest())(t))
	s.now = time.Unix(0, 0) // a clock that is late removes nothing, also when it is right again
	s.put("a")
	require.NoError(t, s.flush())
	s.now = time.Unix(1e9, 0).Add(8 * 25 * time.Minute)
	require.NoError(t, s.load(DeleteRange, Event{Ranges: []Range{{}}}))
	s.requireRead(6, "a", "a", "a", ".delete ..")
}

// noMoves is a hook under which no file can be moved.
func noMoves(op wrap.Op) *wrap.Fault {
	if op.Kind == wrap.OpLink || op.Kind == wrap.OpRename {
		return &wrap.Fault{Err: syscall.ENOSPC}
	}
	return nil
}

// The move of a log fails once, for lack of space or because of a network. The next flush moves it too, and what is
// kept does not grow from then on.
func TestALogThatCannotBeMovedIsMovedLater(t *testing.T) {
	fsys := fixture.NewFailing()
	s := newStore(t, fsys)
	s.o.Bytes = 250
	require.NoError(t, s.open())
	for i := range 8 {
		s.put(fmt.Sprint(i) + strings.Repeat("k", 50))
		if i == 2 || i == 3 {
			fsys.On(noMoves)
			require.ErrorIs(t, s.flush(), syscall.ENOSPC)
			fsys.Heal()
			continue
		}
		require.NoError(t, s.flush())
		_, size := s.a.Kept()
		require.LessOrEqual(t, size, s.o.Bytes)
		require.Len(t, s.names(), 1)
		s.requireRead(uint64(i), fmt.Sprint(i)+strings.Repeat("k", 50))
	}
}

// A cursor keeps what comes after it, and no more.
func TestACursorKeepsItsChanges(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Bytes = 1
	require.NoError(t, s.open())
	require.NoError(t, s.a.SetCursor("late", 0, s.seq))
	require.NoError(t, s.fill())
	s.requireRead(0, filledChanges...)
	require.NoError(t, s.open())
	s.requireRead(0, filledChanges...)
	require.NoError(t, s.a.SetCursor("early", 105, s.seq))
	require.Equal(t, []string{"early 105", "late 0"}, sorted(s.a.Cursors()))
	require.NoError(t, s.a.SetCursor("late", 104, s.seq)) // in the middle of a batch
	s.requireGone(102, 103)
	s.requireRead(103, filledChanges[3:]...)
	require.NoError(t, s.a.DropCursor("late"))
	require.NoError(t, s.a.DropCursor("never there"))
	s.requireGone(104, 105)
	require.NoError(t, s.open())
	s.requireRead(105, filledChanges[4:]...)
	require.Equal(t, []string{"early 105"}, sorted(s.a.Cursors()))
	require.ErrorIs(t, s.a.SetCursor("early", 104, s.seq), ErrGone)
	require.ErrorIs(t, s.a.SetCursor("early", s.seq+1, s.seq), ErrAhead)
	require.ErrorIs(t, s.a.SetCursor("early", math.MaxUint64, s.seq), ErrAhead)
	require.NoError(t, s.a.SetCursor("early", s.seq, s.seq))
	require.Equal(t, []string{"CURSORS"}, s.names())
	for _, name := range []string{"", strings.Repeat("n", maxCursorName+1)} {
		require.ErrorContains(t, s.a.SetCursor(name, s.seq, s.seq), "it must have 1 to 1000")
	}
	require.NoError(t, s.a.SetCursor("\x00\xff\n\"", s.seq, s.seq))
	require.NoError(t, s.open())
	require.Contains(t, s.a.Cursors(), "\x00\xff\n\"")
	for i := range maxCursors - 2 {
		s.a.cursors[string(rune('一'+i))] = 1
	}
	require.ErrorContains(t, s.a.SetCursor("one more", s.seq, s.seq), "there are 10000 cursors")
	require.NoError(t, s.a.SetCursor("early", s.seq, s.seq))
}

// While a cursor is being written, its changes are not removed.
func TestACursorHoldsWhileItIsWritten(t *testing.T) {
	mem := vfs.NewMem()
	var hook func()
	s := newStore(t, wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpSync && strings.Contains(op.Name, "CURSORS") {
			hook()
		}
		return nil
	}))
	s.o.Bytes = 1
	require.NoError(t, s.open())
	s.put("a")
	hook = func() {
		require.NoError(t, s.flush())
		s.requireRead(0, "a")
	}
	require.NoError(t, s.a.SetCursor("reader", 0, s.seq))
	s.requireRead(0, "a")
	hook = func() {}
	require.NoError(t, s.a.SetCursor("reader", 1, s.seq))
	s.requireGone(0, 1)
}

// A cursor has filled the disk, so that the file of the cursors cannot be written either. It can be dropped.
func TestACursorThatFilledTheDiskCanBeDropped(t *testing.T) {
	const room = 1000 // bytes that the archive can use
	var s *store
	s = newStore(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpWrite || !strings.Contains(op.Name, cursorsName) {
			return nil
		}
		if _, size := s.a.Kept(); size > room {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	}))
	s.o.Bytes = 1
	require.NoError(t, s.open())
	require.NoError(t, s.a.SetCursor("idle", 0, s.seq))
	for range 20 {
		s.put(strings.Repeat("k", 50))
		require.NoError(t, s.flush())
		if s.seq == 5 {
			require.NoError(t, s.a.SetCursor("other", s.seq, s.seq))
		}
	}
	require.ErrorIs(t, s.a.DropCursor("other"), base.ErrNoSpace, "idle needs everything")
	require.Equal(t, []string{"idle 0", "other 5"}, sorted(s.a.Cursors()))
	require.ErrorIs(t, s.a.DropCursor("idle"), base.ErrNoSpace, "other needs too much")
	require.Equal(t, []string{"idle 0", "other 5"}, sorted(s.a.Cursors()))
	s.requireGone(0, 5)
	require.NoError(t, s.a.DropCursor("other"))
	require.Equal(t, []string{"idle 0"}, sorted(s.a.Cursors()))
	require.Equal(t, []string{"CURSORS"}, s.names())
	require.NoError(t, s.open())
	require.Equal(t, []string{"idle 0"}, sorted(s.a.Cursors()))
}

// A cursor whose changes are gone is refused, so it keeps nothing.
func TestACursorFromBeforeARestartKeepsNothing(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	s.o.Bytes = 1
	require.NoError(t, s.open())
	require.NoError(t, s.a.SetCursor("reader", 0, s.seq))
	s.put("a")
	require.NoError(t, s.flush())
	s.seq += 100 // another program wrote
	require.NoError(t, s.open())
	s.requireGone(0, 101)
	s.put("b")
	require.NoError(t, s.flush())
	require.Equal(t, []string{"CURSORS"}, s.names())
}

// Numbers of writes that failed are no change, and their records are not read: before the log moves, and after.
func TestRecordsOfWritesThatFailed(t *testing.T) {
	for _, moved := range []bool{true, false} {
		fsys := fixture.NewFailing()
		s := newStore(t, fsys)
		require.NoError(t, s.open())
		s.put("a")
		s.write(2, "failed", "f")
		require.NoError(t, s.a.RecordFailed(1, 4, s.manifest))
		if !moved {
			fsys.On(noMoves)
		}
		require.Equal(t, moved, s.flushWith(4) == nil)
		s.put("b")
		s.requireRead(0, "a", "b")
		fsys.Heal()
		require.NoError(t, s.open())
		s.requireRead(0, "a", "b")
		require.Equal(t, []string{"1-1-4.log", "5-5.log"}, s.names())
	}
}

// The note about a failed write is of another MANIFEST: an opening in between may have replayed the record.
func TestANoteFromBeforeAnotherOpening(t *testing.T) {
	for name, manifest := range map[string]uint64{"the same": 1, "another": 2} {
		s := opened(t)
		s.put("a")
		s.write(2, "failed")
		require.NoError(t, s.a.RecordFailed(1, 2, s.manifest))
		s.seq = 2
		s.manifest, s.logNum = manifest, s.num+1 // killed before the log moved
		require.NoError(t, s.open())
		if name == "the same" {
			s.requireRead(0, "a")
		} else {
			s.requireGone(0, 2)
		}
		require.NotContains(t, strings.Join(s.names(), " "), "pending")
	}
	s := opened(t)
	s.put("a")
	s.write(2, "failed")
	require.NoError(t, s.a.RecordFailed(1, 2, s.manifest))
	s.seq = 2 // killed before the flush: the log is replayed with its last record
	require.NoError(t, s.open())
	s.requireRead(0, "a", "failed")
	require.NoError(t, s.a.RecordFailed(2, 2, s.manifest)) // nothing failed
	require.Equal(t, []string{"1-2.log"}, s.names())
}

// A change that was not made leaves nothing. If that is unknown, the history restarts.
func TestAChangeThatIsNotMade(t *testing.T) {
	for _, unsure := range []bool{false, true} {
		s := filled(t, vfs.NewMem())
		require.NoError(t, s.flush())
		p := result.Of(s.a.Begin(Load, Event{Manifest: s.manifest}, 406, []string{s.table("t")}))(t)
		p.Abandon(unsure, 406)
		require.NotContains(t, strings.Join(s.names(), " "), "pending")
		if unsure {
			s.seq = 406
			s.requireGone(306, 406)
			require.Empty(t, s.names())
			continue
		}
		s.put("f")
		s.requireRead(305, "e", "f")
		require.NoError(t, s.open())
		s.requireRead(0, append(filledChanges, "f")...)
	}
	(*Pending)(nil).Commit()
	(*Pending)(nil).Abandon(true, 0)
}

// The file of a change that was not made could not be removed, and another change has its numbers.
func TestARecordOfAChangeThatWasNotMade(t *testing.T) {
	for name, next := range map[string]func(*store) error{
		"a load":                      func(s *store) error { return s.load(Load, Event{}, "l") },
		"a log":                       func(s *store) error { s.put(strings.Split(strings.Repeat("k ", 99)+"k", " ")...); return nil },
		"a log that was kept":         func(s *store) error { s.put(strings.Split(strings.Repeat("k ", 99)+"k", " ")...); return s.flush() },
		"another record of that kind": nil,
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fixture.NewFailing()
			s := newStore(t, fsys)
			require.NoError(t, s.open())
			s.put("a")
			require.NoError(t, s.flush())
			fsys.Fail(wrap.OpRemove, ".pending", wrap.ErrInjected)
			kinds := []Kind{DeleteRange}
			if next == nil {
				kinds = append(kinds, Ingest)
			}
			for _, kind := range kinds {
				p := result.Of(s.a.Begin(kind, Event{Manifest: s.manifest, Ranges: []Range{{}}}, s.seq+100, nil))(t)
				p.Abandon(false, s.seq+100)
			}
			if next != nil {
				require.NoError(t, next(s))
				s.put("b")
			} else {
				s.seq += 100
			}
			got, err := readAll(NewDirectory(s.fsys, "db", nil), s.fsys, 0, s.seq, nil)
			require.NotContains(t, strings.Join(got, " "), ".delete")
			if next != nil && err != nil {
				require.ErrorIs(t, err, ErrGone)
			}
			fsys.Heal()
			require.NoError(t, s.open())
			got, err = s.read(0)
			require.NotContains(t, strings.Join(got, " "), ".delete")
			if err != nil {
				require.ErrorIs(t, err, ErrGone)
				require.NotContains(t, []string{"a load", "a log"}, name)
			}
		})
	}
}

// What is pending when the process ends counts if the database has its number and the same MANIFEST.
func TestAKillBeforeAChangeIsRenamed(t *testing.T) {
	for name, c := range map[string]struct {
		seq, manifest uint64
		damage        string
		gone          uint64
	}{
		"made":             {seq: 101, manifest: 1},
		"not made":         {seq: 1, manifest: 1},
		"another MANIFEST": {seq: 101, manifest: 2, gone: 101},
		"unreadable":       {seq: 101, manifest: 1, damage: "2-101.load.pending", gone: 101},
		"without a table":  {seq: 101, manifest: 1, damage: "000501.ldb", gone: 101},
		"other numbers":    {seq: 150, manifest: 1, gone: 150},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			s.put("a")
			require.NoError(t, s.flush())
			_, err := s.a.Begin(Load, Event{Manifest: s.manifest}, 101, []string{s.table("t")})
			require.NoError(t, err)
			if c.damage != "" {
				require.NoError(t, s.fsys.Remove(filepath.Join("db/changes", c.damage)))
				if c.damage[0] == '2' {
					fixture.WriteFile(t, s.fsys, filepath.Join("db/changes", c.damage), nil)
				}
			}
			s.seq, s.manifest = c.seq, c.manifest
			require.NoError(t, s.open())
			s.put("b")
			if c.gone > 0 {
				s.requireGone(0, c.gone)
			} else if c.seq == 101 {
				s.requireRead(0, "a", ".load t", "b")
			} else {
				s.requireRead(0, "a", "b")
			}
			require.NotContains(t, strings.Join(s.names(), " "), "pending")
		})
	}
}

// A load follows at once after a log that is not moved yet, and the process is killed.
func TestAKillBeforeTheLogInFrontOfALoadIsMoved(t *testing.T) {
	s := opened(t)
	s.put("a")
	require.NoError(t, s.flush())
	s.put("b")
	old := s.num
	require.NoError(t, s.log.Close())
	s.begin()
	s.a.SwitchLog(s.seq, s.seq, s.num)
	s.logNum = s.num
	require.NoError(t, s.load(Load, Event{}, "t"))
	s.put("c")
	require.NoError(t, result.Err(s.fsys.Stat(filepath.Join("db", base.FileName(base.FileLog, old)))))
	for range 2 {
		got := result.Of(readAll(NewDirectory(s.fsys, "db", nil), s.fsys, 0, s.seq, nil))(t)
		require.Equal(t, []string{"a", "b", ".load t", "c"}, got)
		require.NoError(t, s.open())
		s.requireRead(0, "a", "b", ".load t", "c")
	}
	require.Equal(t, []string{"000501.ldb", "1-1.log", "103-103.log", "2-2.log", "3-102.load"}, s.names())
}

// Where numbers are missing, and where that is not certain, the history restarts.
func TestWhenTheHistoryRestarts(t *testing.T) {
	logs := []string{"1-3.log", "104-105.log", "306-306.log"}
	for name, c := range map[string]struct {
		change func(*testing.T, *store, *Recovered)
		oldest uint64
	}{
		"nothing":         {func(*testing.T, *store, *Recovered) {}, 0},
		"salvaged":        {func(_ *testing.T, _ *store, r *Recovered) { r.Salvaged = true }, 306},
		"more numbers":    {func(_ *testing.T, _ *store, r *Recovered) { r.LastSeq++ }, 307},
		"fewer numbers":   {func(_ *testing.T, _ *store, r *Recovered) { r.LastSeq-- }, 305},
		"oldest removed":  {remove(logs[0]), 3},
		"one removed":     {remove(logs[1]), 105},
		"newest removed":  {remove(logs[2]), 306},
		"load removed":    {remove("4-103.load"), 103},
		"load damaged":    {overwrite("4-103.load", 1), 103},
		"table removed":   {remove("000501.ldb"), 103},
		"renamed":         {rename(logs[1], "104-106.log"), 105}, // it overlaps the next one
		"renamed, hidden": {rename(logs[1], "0104-105.log"), 105},
		"one beyond":      {overwrite("307-400.log", 0), 306},
		"one far away":    {overwrite("500-600.log", 0), 306},
		"a directory": {func(t *testing.T, s *store, _ *Recovered) {
			require.NoError(t, s.fsys.Remove("db/changes/1-3.log"))
			require.NoError(t, s.fsys.MkdirAll("db/changes/1-3.log"))
		}, 3},
		"a log after a gap": {func(t *testing.T, s *store, r *Recovered) {
			s.seq += 10
			s.put("x")
			r.LastSeq, r.Logs = s.seq, []uint64{s.num}
		}, 316},
		"a log of the past": {func(t *testing.T, s *store, r *Recovered) {
			s.seq = 105
			s.put("x", "y")
			r.LastSeq, r.Logs = 306, []uint64{s.num}
		}, 306},
		"a damaged log": {func(t *testing.T, s *store, r *Recovered) {
			require.NoError(t, s.log.WriteRecord([]byte("no batch")))
			r.Logs = []uint64{s.num}
		}, 306},
		"a log whose numbers repeat": {func(t *testing.T, s *store, r *Recovered) {
			s.put("x")
			s.write(s.seq, "x")
			r.LastSeq, r.Logs = s.seq, []uint64{s.num}
		}, 307},
		"a log below its preamble": {func(t *testing.T, s *store, r *Recovered) {
			s.write(200, "x")
			r.Logs = []uint64{s.num}
		}, 306},
		"a missing log":       {func(_ *testing.T, s *store, r *Recovered) { r.Logs = []uint64{77} }, 306},
		"a log that is there": {func(t *testing.T, s *store, r *Recovered) { s.copyBack(306, "e"); r.Logs = []uint64{s.num} }, 0},
		"a log that was not moved": {func(t *testing.T, s *store, r *Recovered) {
			remove(logs[0])(t, s, r)
			s.copyBack(1, "a", "b", "-a")
			r.Logs = []uint64{s.num}
		}, 0},
		"an older log": {func(t *testing.T, s *store, r *Recovered) {
			remove(logs[0])(t, s, r)
			s.copyBack(1, "a", "b")
			r.Logs = []uint64{s.num}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := filled(t, vfs.NewMem())
			require.NoError(t, s.open())
			r := Recovered{LastSeq: s.seq, Manifest: s.manifest}
			c.change(t, s, &r)
			s.seq = r.LastSeq
			require.NoError(t, s.openWith(r))
			at := result.Of(s.a.Oldest())(t)
			require.Equal(t, c.oldest, at)
			if c.oldest > 0 {
				s.requireGone(c.oldest-1, c.oldest)
			}
			require.NoError(t, result.Err(s.read(c.oldest)))
		})
	}
}

func remove(name string) func(*testing.T, *store, *Recovered) {
	return func(t *testing.T, s *store, _ *Recovered) {
		require.NoError(t, s.fsys.Remove(filepath.Join("db/changes", name)))
	}
}

// overwrite makes a file of that many zeros.
func overwrite(name string, size int) func(*testing.T, *store, *Recovered) {
	return func(t *testing.T, s *store, _ *Recovered) {
		fixture.WriteFile(t, s.fsys, filepath.Join("db/changes", name), make([]byte, size))
	}
}

func rename(from, to string) func(*testing.T, *store, *Recovered) {
	return func(t *testing.T, s *store, _ *Recovered) {
		require.NoError(t, s.fsys.Rename(filepath.Join("db/changes", from), filepath.Join("db/changes", to)))
	}
}

// copyBack writes a log that is in the archive.
func (s *store) copyBack(first uint64, keys ...string) {
	last := s.seq
	s.seq = first - 1
	s.put(keys...)
	s.seq = last
}

// A crash in the middle of a copy from another file system, and of writing the cursors, leaves files that are removed.
func TestStrayFilesAreRemoved(t *testing.T) {
	s := filled(t, vfs.NewMem())
	for _, name := range []string{"1-3.log.copying", "CURSORS.tmp", "000099.ldb", "notes.txt"} {
		fixture.WriteFile(t, s.fsys, "db/changes/"+name, []byte("x"))
	}
	require.NoError(t, s.open())
	require.Equal(t, []string{
		"000501.ldb", "000502.ldb", "1-3.log", "104-105.log", "106-205.ingest", "206-305.delete", "306-306.log", "4-103.load", "notes.txt",
	}, s.names())
}

func TestDestroy(t *testing.T) {
	s := filled(t, vfs.NewMem())
	fixture.WriteFile(t, s.fsys, "db/changes/1-3.log.copying", nil)
	require.NoError(t, s.a.SetCursor("c", s.seq, s.seq))
	fixture.WriteFile(t, s.fsys, "db/changes/notes.txt", nil)
	require.NoError(t, Destroy(s.fsys, "db"))
	require.Equal(t, []string{"notes.txt"}, s.names())
	require.NoError(t, s.fsys.Remove("db/changes/notes.txt"))
	require.NoError(t, Destroy(s.fsys, "db"))
	require.ErrorIs(t, result.Err(s.fsys.Stat("db/changes")), fs.ErrNotExist)
	require.NoError(t, Destroy(s.fsys, "db"))
	for n := range uint64(20) {
		s := filled(t, vfs.NewMem())
		y := wrap.NewFaulty(s.fsys, wrap.FailNth(n, nil))
		if err := Destroy(y, "db"); y.Ops() > n {
			require.ErrorIs(t, err, wrap.ErrInjected, n)
		}
		require.NoError(t, Destroy(s.fsys, "db"))
	}
}

func TestDamagedCursorsAreDropped(t *testing.T) {
	s := opened(t)
	require.NoError(t, s.a.SetCursor("c", 0, 0))
	for _, content := range []string{"", "sievedb cursors 2\n0 \"c\"\ncrc32c 00000000\n", cursorsTitle + "\n0 \"c\"\ncrc32c 00000000\n", cursorsTitle + "\nx \"c\"\n\n", cursorsTitle + "\n0 'c\n\n"} {
		fixture.WriteFile(t, s.fsys, "db/changes/CURSORS", []byte(content))
		require.NoError(t, s.open(), content)
		require.Empty(t, s.a.Cursors())
	}
	_, err := readCursors(largeFS{s.fsys}, "db/changes")
	require.ErrorContains(t, err, "more than")
	require.ErrorIs(t, err, base.ErrCorruption)
}

// The cursors of a later version were taken for damaged, dropped and overwritten.
func TestCursorsOfALaterVersionAreKept(t *testing.T) {
	s := opened(t)
	require.NoError(t, s.a.SetCursor("c", 0, 0))
	body := "sievedb cursors 2\nsomething new\n"
	later := fmt.Sprintf("%scrc32c %08x\n", body, util.CRC32C([]byte(body)))
	fixture.WriteFile(t, s.fsys, "db/changes/CURSORS", []byte(later))
	err := s.open()
	require.ErrorIs(t, err, base.ErrNewer)
	require.NotErrorIs(t, err, base.ErrCorruption)
	require.ErrorContains(t, err, "version 2")
	require.Equal(t, later, string(fixture.ReadFile(t, s.fsys, "db/changes/CURSORS")))

	fixture.WriteFile(t, s.fsys, "db/changes/CURSORS", []byte(body))
	require.ErrorIs(t, result.Err(readCursors(largeFS{s.fsys}, "db/changes")), base.ErrNewer, "too large to read")
}

// A recorded change of a later version was removed at Open, and a follower reported a gap.
func TestAChangeOfALaterVersionIsKept(t *testing.T) {
	s := opened(t)
	event := (&Event{}).encode()
	event[0] = 2
	fixture.WriteFile(t, s.fsys, "db/changes/1-9.delete", fixture.Log(t, event))
	names := s.names()
	require.ErrorIs(t, s.open(), base.ErrNewer)
	require.Equal(t, names, s.names())
	_, err := NewReader(NewDirectory(s.fsys, "db", nil), 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise}).Next(9)
	require.ErrorIs(t, err, base.ErrNewer)
	require.NotErrorIs(t, err, ErrGone)
}

// largeFS has files that say that they are very large.
type largeFS struct{ vfs.FS }

func (l largeFS) Open(name string) (vfs.File, error) {
	f, err := l.FS.Open(name)
	return largeFile{f}, err
}

type largeFile struct{ vfs.File }

func (largeFile) Size() (int64, error) { return maxCursorFile + 1, nil }

// The subdirectory cannot be used: nothing is kept, which each reader gets to know, and the database works.
func TestAnArchiveThatCannotBeWritten(t *testing.T) {
	fsys := fixture.NewFailing()
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	s.put("a")
	fsys.Fail(wrap.OpSyncDir, "db/changes", syscall.EROFS)
	require.ErrorIs(t, s.open(), syscall.EROFS)
	s.put("b")
	require.NoError(t, s.load(Load, Event{}, "l"))
	require.NoError(t, s.flush())
	require.NoError(t, s.a.RecordFailed(1, 2, 3))
	require.ErrorContains(t, result.Err(s.read(0)), "no changes are kept since the database was opened")
	require.ErrorIs(t, result.Err(s.a.Oldest()), syscall.EROFS)
	require.ErrorIs(t, s.a.SetCursor("c", 0, s.seq), syscall.EROFS)
	fsys.Heal()
	require.NoError(t, s.open())
	s.requireGone(0, s.seq)
}

// Each operation fails once. A reader then gets the same changes, or an error, now and after the next opening.
func TestAnErrorAtEachOperation(t *testing.T) {
	script := func(s *store) {
		if err := s.open(); err != nil && s.a == nil || err != nil && s.a.segments == nil {
			return
		}
		if s.fill() != nil {
			return
		}
		_ = s.a.SetCursor("c", 105, s.seq)
		_ = s.a.RecordFailed(s.seq, s.seq+2, s.manifest)
		_ = s.flushWith(s.seq + 2)
		_ = s.a.DropCursor("c")
	}
	for n := uint64(0); ; n++ {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("db"))
		inLog := false
		y := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			// The logs and tables are those of the database, which handles their failures.
			if op.Index == n && (op.Kind == wrap.OpCreate || op.Kind == wrap.OpWrite || op.Kind == wrap.OpSync || op.Kind == wrap.OpClose || op.Kind == wrap.OpMkdirAll ||
				op.Kind == wrap.OpList) && !strings.Contains(op.Name, "changes") {
				inLog = true
				return nil
			}
			return wrap.FailNth(n, nil)(op)
		})
		s := newStore(t, y)
		script(s)
		if y.Ops() <= n {
			require.Greater(t, n, uint64(60))
			return
		}
		if s.a == nil || s.a.segments == nil {
			require.False(t, inLog)
			continue
		}
		for range 2 {
			for _, since := range []uint64{0, 105} {
				got, err := s.read(since)
				if err != nil && !errors.Is(err, wrap.ErrInjected) {
					require.ErrorIs(t, err, ErrGone, n)
				}
				all := filledChanges
				if since == 105 {
					all = all[4:]
				}
				require.Equal(t, strings.Join(all[:len(got)], ","), strings.Join(got, ","), n)
			}
			s.fsys, s.o.FS = mem, mem
			require.NoError(t, s.open(), n)
		}
	}
}

// The worked bytes of docs/format.md.
func TestVectorsOfTheFormat(t *testing.T) {
	text := result.Of(os.ReadFile("testdata/event.hex"))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.ReplaceAll(strings.TrimSpace(line), " ", ""))
	}
	raw := result.Of(hex.DecodeString(digits.String()))(t)
	own := batch.Batch{}
	own.Add(base.KindSet, []byte("k"), []byte("v"))
	want := Event{
		Manifest: 11, Ranges: []Range{{Start: []byte("a"), Limit: []byte("m")}, {Start: []byte("x")}},
		Own: own.Record(1), Tables: []string{"000013.ldb"},
	}
	require.Equal(t, raw, want.encode(), "%x", want.encode())
	got := result.Of(decodeEvent(raw))(t)
	require.Equal(t, want, *got)

	text = result.Of(os.ReadFile("testdata/cursors.txt"))(t)
	cursors := map[string]uint64{"mirror": 258, "größe": 7}
	require.Equal(t, string(text), string(encodeCursors(cursors)))
	again := result.Of(decodeCursors(text))(t)
	require.Equal(t, cursors, again)
}
