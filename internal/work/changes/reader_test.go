package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/damage"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func TestAPrefix(t *testing.T) {
	s := filled(t, vfs.NewMem())
	s.put("ca", "x")
	s.put("y")
	got := result.Of(readAll(s.a, s.fsys, 0, s.seq, []byte("c")))(t)
	require.Equal(t, []string{".load", "c", ".ingest", ".delete a..c ..", "ca", "skipped"}, got)
	got = result.Of(readAll(s.a, s.fsys, s.seq-1, s.seq, []byte("c")))(t)
	require.Equal(t, []string{"skipped"}, got)
	got = result.Of(readAll(s.a, s.fsys, s.seq, s.seq, []byte("c")))(t)
	require.Empty(t, got)
}

// The numbers of a Skipped change lead from the change before to the next one.
func TestTheNumbersOfWhatIsSkipped(t *testing.T) {
	s := opened(t)
	s.put("c")
	s.put("x", "y")
	s.put("z")
	r := NewReader(s.a, 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise, Prefix: []byte("c")})
	defer r.Close()
	for _, want := range [][2]uint64{{1, 1}, {2, 4}} {
		c := result.Of(r.Next(s.seq))(t)
		require.Equal(t, want, [2]uint64{c.First, c.Last})
	}
	require.Nil(t, result.Of(r.Next(s.seq))(t))
	require.Equal(t, s.seq, r.Position())
}

// A value's envelope is opened, and one whose time has passed is a deletion.
func TestTimesToLive(t *testing.T) {
	now := time.Unix(1e9, 0)
	policy := expiry.New([][]byte{[]byte("t/")}, func() time.Time { return now })
	seal := func(key string, ttl time.Duration) []byte {
		sealed := result.Of(policy.Seal(nil, []byte(key), []byte("value"), ttl))(t)
		return sealed
	}
	c := content{expiry: policy}
	put := func(key string, value []byte, ttl time.Duration) batch.Entry {
		return batch.Entry{Kind: batch.EntryPut, Key: []byte(key), Value: value, TTL: ttl}
	}
	value := []byte("value")
	require.Equal(t, put("k", value, 0), c.entry(base.KindSet, []byte("k"), value))
	require.Equal(t, put("t/k", value, 0), c.entry(base.KindSet, []byte("t/k"), seal("t/k", 0)))
	require.Equal(t, put("t/k", value, time.Minute), c.entry(base.KindSet, []byte("t/k"), seal("t/k", time.Minute)))
	require.Equal(t, put("t/k", value, 0), c.entry(base.KindSet, []byte("t/k"), value), "without an envelope")
	sealed := seal("t/k", time.Second)
	now = now.Add(2 * time.Second)
	require.Equal(t, batch.Entry{Kind: batch.EntryDelete, Key: []byte("t/k")}, c.entry(base.KindSet, []byte("t/k"), sealed))
	require.Equal(t, batch.Entry{Kind: batch.EntryDelete, Key: []byte("t/k")}, c.entry(base.KindDelete, []byte("t/k"), nil))
}

// What a reader of the directory cannot know is an error, never the end.
func TestADirectoryWithoutThePast(t *testing.T) {
	s := opened(t)
	d := NewDirectory(s.fsys, "db", nil)
	requireGone := func(since, limit, oldest uint64) {
		t.Helper()
		_, err := readAll(d, s.fsys, since, limit, nil)
		var gone *GoneError
		require.ErrorAs(t, err, &gone)
		require.Equal(t, oldest, gone.Oldest)
	}
	requireOldest := func(last, want uint64) {
		t.Helper()
		got := result.Of(d.Oldest(last))(t)
		require.Equal(t, want, got)
	}
	requireOldest(0, 0)
	requireOldest(7, 7)
	requireGone(0, 7, 7) // there is no log
	s.seq = 7
	s.put("a")
	requireOldest(8, 7)
	requireGone(0, 8, 7)
	requireGone(7, 20, 20) // more is visible than the log has
	requireOldest(20, 7)   // what the log lacks is seen when it is read
	s.seq = 20
	s.put("b")
	requireGone(7, 21, 20) // a gap in a log, and the position that the error names
	require.Equal(t, []string{"b"}, result.Of(readAll(d, s.fsys, 20, 21, nil))(t))
	require.NoError(t, s.log.Close())
	s.begin()
	s.seq = 30
	s.put("c")
	requireOldest(31, 7)
	requireGone(21, 31, 30) // between two logs
	d.settle()
}

// goleveldb uses the numbers of a write whose sync failed again.
func TestNumbersThatRepeat(t *testing.T) {
	s := opened(t)
	d := NewDirectory(s.fsys, "db", nil)
	s.put("a")
	s.write(1, "again")
	s.write(2, "b")
	got, err := readAll(d, s.fsys, 0, 2, nil)
	require.ErrorIs(t, err, ErrGone)
	require.Equal(t, []string{"a"}, got)
	require.NoError(t, s.log.Close())

	s = opened(t)
	d = NewDirectory(s.fsys, "db", nil)
	s.put("a")
	s.write(2, "b")
	require.NoError(t, s.log.Close())
	s.begin()
	s.seq = 1
	s.put("again")
	got, err = readAll(d, s.fsys, 0, 3, nil)
	require.ErrorIs(t, err, ErrGone)
	require.Equal(t, []string{"a", "b"}, got)
}

// Files that are removed or damaged by others are errors.
func TestFilesThatOthersChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *store, *Recovered)
		gone   uint64
		is     error
	}{
		"a log removed":   {remove("1-3.log"), 3, ErrGone},
		"a load removed":  {remove("4-103.load"), 103, ErrGone},
		"a table removed": {remove("000501.ldb"), 103, ErrGone},
		"a log cut":       {overwrite("1-3.log", 0), 0, base.ErrCorruption},
		"a load damaged":  {overwrite("4-103.load", 0), 0, base.ErrCorruption},
		"a table damaged": {overwrite("000501.ldb", 100), 0, base.ErrCorruption},
		"another log": {func(t *testing.T, s *store, _ *Recovered) {
			require.NoError(t, s.fsys.Remove("db/changes/1-3.log"))
			require.NoError(t, s.fsys.Rename("db/changes/104-105.log", "db/changes/1-3.log"))
		}, 0, base.ErrCorruption},
	} {
		t.Run(name, func(t *testing.T) {
			s := filled(t, vfs.NewMem())
			c.change(t, s, nil)
			got, err := s.read(0)
			require.ErrorIs(t, err, c.is)
			require.Equal(t, strings.Join(filledChanges[:len(got)], ","), strings.Join(got, ","))
			var gone *GoneError
			if errors.As(err, &gone) {
				require.Equal(t, c.gone, gone.Oldest)
			}
			s.requireRead(105, filledChanges[4:]...)
		})
	}
}

// A reader has found a load, and the archive is trimmed before it opens the file: the error has the oldest position.
func TestALoadIsRemovedBeforeItIsRead(t *testing.T) {
	var s *store
	trim := true
	s = filled(t, wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpOpen && strings.HasSuffix(op.Name, "4-103.load") && trim {
			trim = false
			s.a.o.Bytes = 1
			s.a.trim()
		}
		return nil
	}))
	_, err := s.read(3)
	var gone *GoneError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, uint64(305), gone.Oldest)
}

// A slow reader has a load, and the archive is trimmed before it reads the entries, or between two tables: the error is
// that of any change that is gone.
func TestALoadIsRemovedWhileItIsRead(t *testing.T) {
	s := opened(t)
	p := result.Of(s.a.Begin(Load, Event{Manifest: s.manifest}, 100, []string{s.table("l"), s.table("m")}))(t)
	p.Commit()
	s.seq = 100
	r := NewReader(s.a, 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise})
	defer r.Close()
	c, err := r.Next(s.seq)
	require.NoError(t, err)
	var keys []string
	for e, entryErr := range c.Entries(nil) {
		if err = entryErr; err == nil {
			keys = append(keys, string(e.Key))
			s.a.o.Bytes = 1
			s.a.trim()
		}
	}
	require.Equal(t, []string{"l"}, keys)
	var gone *GoneError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, [2]uint64{0, 100}, [2]uint64{gone.Since, gone.Oldest})
}

// A reader of a directory reads the names of all files, and what the loads say, once: with 2,000 loads it took minutes
// when it did so for each of them. It notices when files are removed, and when others come.
func TestADirectoryWithManyLoads(t *testing.T) {
	var lists, opens int
	fsys := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		switch {
		case op.Kind == wrap.OpList:
			lists++
		case op.Kind == wrap.OpOpen && strings.HasSuffix(op.Name, ".delete"):
			opens++
		}
		return nil
	})
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	const loads = 100
	begin := func(n int) {
		for range n {
			require.NoError(t, s.load(DeleteRange, Event{Ranges: []Range{{}}}))
		}
	}
	begin(loads)
	s.put("a")
	d := NewDirectory(fsys, "db", nil)
	lists, opens = 0, 0
	got := result.Of(readAll(d, fsys, 0, s.seq, nil))(t)
	require.Len(t, got, loads+1)
	require.LessOrEqual(t, lists, 10)
	require.LessOrEqual(t, opens, 2*loads)

	require.NoError(t, s.flush())
	begin(2)
	got = result.Of(readAll(d, fsys, 0, s.seq, nil))(t)
	require.Len(t, got, loads+3)

	r := NewReader(d, 0, ReaderOptions{FS: fsys, Cmp: base.Bytewise})
	defer r.Close()
	require.NoError(t, result.Err(r.Next(s.seq)))
	s.a.o.Bytes = 1
	s.put("b")
	require.NoError(t, s.flush())
	_, err := r.Next(s.seq)
	var gone *GoneError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, uint64(100), gone.Since)
}

// Reading begins where an earlier reader ended.
func TestAReaderContinuesWhereAnotherEnded(t *testing.T) {
	counting := wrap.NewCounting(vfs.NewMem())
	s := newStore(t, counting)
	require.NoError(t, s.open())
	for range 200 {
		s.put(strings.Repeat("k", 1000))
	}
	at := s.seq - 1
	require.NoError(t, result.Err(s.read(at)))
	before := counting.Snapshot().Total.ReadBytes
	require.NoError(t, result.Err(s.read(s.seq-1)))
	first := counting.Snapshot().Total.ReadBytes - before
	require.NoError(t, s.flush())
	s.put("b")
	before = counting.Snapshot().Total.ReadBytes
	s.requireRead(200, "b")
	require.Less(t, counting.Snapshot().Total.ReadBytes-before, first)
}

func TestTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t)
		s.put("a")
		h := &host{closing: make(chan struct{}), visible: 1, limit: func() uint64 { return s.seq }}
		var last atomic.Uint64
		last.Store(s.seq)
		l := &Loop{ReaderOptions: ReaderOptions{FS: s.fsys, Cmp: base.Bytewise}, Source: s.a}
		count := 0
		yield := func(*Change) bool { count++; return true }
		require.NoError(t, l.Run(t.Context(), h, yield))
		require.Equal(t, 1, count)
		require.NoError(t, l.Run(t.Context(), h, func(*Change) bool { return false }))
		l.Since = 2
		require.ErrorIs(t, l.Run(t.Context(), h, yield), ErrAhead)
		l.Since = math.MaxUint64
		require.ErrorIs(t, l.Run(t.Context(), h, yield), ErrAhead)
		l.Since = 0
		h.err = fs.ErrPermission
		require.ErrorIs(t, l.Run(t.Context(), h, yield), fs.ErrPermission)
		h.err = nil
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Run(canceled, h, yield), context.Canceled)

		l.Wait = true
		h.limit = func() uint64 { return last.Load() }
		for _, source := range []Source{s.a, NewDirectory(s.fsys, "db", nil)} {
			l.Source = source
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			count = 0
			go func() { done <- l.Run(ctx, h, yield) }()
			synctest.Wait()
			require.Equal(t, source == Source(s.a), s.a.Watched())
			before := count
			s.put("b")
			last.Store(s.seq)
			s.a.Wake()
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, before+1, count)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.False(t, s.a.Watched())
		}
		go func() { time.Sleep(time.Second); close(h.closing) }()
		require.ErrorIs(t, l.Run(t.Context(), h, yield), base.ErrClosed)
		require.ErrorIs(t, l.Run(t.Context(), h, yield), base.ErrClosed)
		l.Source = s.a
		h.closing = make(chan struct{})
		require.Panics(t, func() { _ = l.Run(t.Context(), h, func(*Change) bool { panic("in the body") }) })
		require.False(t, s.a.Watched())
	})
}

func FuzzName(f *testing.F) {
	for _, name := range []string{"1-2.log", "01-2.log", "21-28-30.log", "1-0-3.load.pending", "0-0.log", "1-.ingest", "5-4.delete", "72057594037927935-72057594037927935.log", "-1-2.log"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, ok := parseName(name)
		if !ok {
			return
		}
		require.Equal(t, name, s.name())
		require.LessOrEqual(t, s.first, s.last)
		require.LessOrEqual(t, s.last, uint64(base.MaxSeq))
		require.LessOrEqual(t, s.logged, s.last)
		require.GreaterOrEqual(t, s.logged+1, s.first)
	})
}

func FuzzEvent(f *testing.F) {
	for _, e := range []Event{
		{},
		{Manifest: 7, Ranges: []Range{{nil, nil}, {[]byte{}, []byte("z")}, {[]byte("a"), nil}}, Own: recordOf(1, "k")},
		{Manifest: 1 << 60, Tables: []string{"000007.ldb", "1000000.ldb"}},
	} {
		b := e.encode()
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(b, 0))
	}
	f.Add([]byte{2})
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{1, 0, 1, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := damage.Allocated()
		e, err := decodeEvent(b)
		require.Less(t, damage.Allocated()-before, uint64(1<<20+1000*len(b)))
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		again := result.Of(decodeEvent(e.encode()))(t)
		require.Equal(t, e, again)
	})
}

func FuzzCursors(f *testing.F) {
	f.Add([]byte(""))
	f.Add(encodeCursors(map[string]uint64{}))
	f.Add(encodeCursors(map[string]uint64{"a": 1, "\x00\xff\n": math.MaxUint64}))
	f.Fuzz(func(t *testing.T, b []byte) {
		cursors, err := decodeCursors(b)
		if err != nil {
			require.True(t, base.IsUnreadable(err), err)
			return
		}
		require.Equal(t, string(b), string(encodeCursors(cursors)))
	})
}

// FuzzHistory reads a directory with a hostile log and a hostile file of a change. What is yielded is in order.
func FuzzHistory(f *testing.F) {
	good := fixture.Log(f, recordOf(1, "a", "b"), recordOf(3, "c"))
	e := Event{Ranges: []Range{{}}, Own: recordOf(1, "x"), Tables: []string{"000007.ldb"}}
	f.Add(good, fixture.Log(f, e.encode()))
	f.Add(fixture.Log(f, recordOf(1, "a"), recordOf(1, "b"), recordOf(math.MaxUint64, "c")), []byte{})
	f.Add(fixture.Log(f, []byte("no batch"), nil), fixture.Log(f, []byte("no event")))
	f.Add(good[:len(good)-2], bytes.Repeat([]byte{0}, 50))
	f.Fuzz(func(t *testing.T, log, event []byte) {
		for _, name := range []string{"db/changes/1-3.log", "db/000001.log"} {
			mem := vfs.NewMem()
			require.NoError(t, mem.MkdirAll("db/changes"))
			fixture.WriteFile(t, mem, name, log)
			fixture.WriteFile(t, mem, "db/changes/4-9.delete", event)
			fixture.WriteFile(t, mem, "db/000002.log", fixture.Log(t, log))
			a := result.Of(New(Options{FS: mem, Dir: "db", Logger: slog.New(slog.DiscardHandler)}))(t)
			plan, err := a.Examine(Recovered{LastSeq: 9, Logs: []uint64{1, 2}})
			if errors.Is(err, base.ErrNewer) {
				return
			}
			require.NoError(t, err)
			for _, src := range []Source{NewDirectory(mem, "db", nil), a} {
				if src == Source(a) {
					_ = a.Start(plan, 3)
				}
				r := NewReader(src, 0, ReaderOptions{FS: mem, Cmp: base.Bytewise})
				for at := uint64(0); ; at = r.Position() {
					c, err := r.Next(9)
					if c == nil || err != nil {
						break
					}
					require.LessOrEqual(t, c.First, at+1)
					require.Greater(t, c.Last, at)
					_, _ = textOf(c, nil)
				}
				require.NoError(t, r.Close())
			}
		}
	})
}

// The logs of an open database have megabytes of zeros behind their records. A reader that waits at the end of a log
// sees what is appended, also when the log was cut and another one follows.
func TestReservedSpaceIsTheEndOfALogForNow(t *testing.T) {
	mem := vfs.NewMem()
	fsys := fixture.NewReserved(mem, 4<<20)
	s := newStore(t, fsys)
	require.NoError(t, s.open())
	for name, src := range map[string]Source{"archive": s.a, "directory": NewDirectory(fsys, "db", nil)} {
		r := NewReader(src, s.seq, ReaderOptions{FS: fsys, Cmp: base.Bytewise})
		next := func(want string) {
			t.Helper()
			c, err := r.Next(s.seq)
			require.NoError(t, err, name)
			require.NotNil(t, c, name)
			text := result.Of(textOf(c, nil))(t)
			require.Equal(t, want, text, name)
			c = result.Of(r.Next(s.seq))(t)
			require.Nil(t, c)
		}
		for i := range 20 {
			key := fmt.Sprintf("key%d", i)
			s.put(key)
			next(key)
		}
		s.put("last")
		fsys.Zeros.Store(0) // a rotation cuts the log, and nobody has looked since
		require.NoError(t, s.flush())
		next("last")
		fsys.Zeros.Store(4 << 20)
		s.put("in the next log")
		next("in the next log")
		fsys.Read.Store(0)
		for range 100 {
			s.put("more")
			next("more")
		}
		require.Less(t, fsys.Read.Load(), int64(5<<20), "%s: reserved space is not read each time", name)
		require.NoError(t, r.Close())
	}
}

// A log that a kill has left with reserved space is kept with it.
func TestALogWithReservedSpaceIsKept(t *testing.T) {
	s := opened(t)
	s.put("a")
	s.put("b", "c")
	path := filepath.Join("db", base.FileName(base.FileLog, s.num))
	fixture.WriteFile(t, s.fsys, path, append(fixture.ReadFile(t, s.fsys, path), make([]byte, 64<<10)...))
	require.NoError(t, s.open())
	s.put("d")
	require.Equal(t, []string{"a", "b c", "d"}, result.Of(readAll(s.a, s.fsys, 0, s.seq, nil))(t))
}

// LevelDB with reuse_logs appends to the log of a killed SieveDB, behind the space that was reserved.
func TestADirectoryHasWhatWasAppendedBehindReservedSpace(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	f := result.Of(s.fsys.Create(filepath.Join("db", base.FileName(base.FileLog, 5))))(t)
	d := NewDirectory(s.fsys, "db", nil)
	r := NewReader(d, 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise})
	size := 0
	appendAt := func(block int, record []byte) {
		t.Helper()
		b := append(make([]byte, max(0, block<<15-size)), fixture.Log(t, record)...)
		require.NoError(t, result.Err(f.Write(b)))
		size += len(b)
	}
	for i, block := range []int{0, 3, 0, 5} {
		seq := uint64(i + 1)
		appendAt(block, recordOf(seq, "key"))
		c := result.Of(r.Next(seq))(t)
		require.NotNil(t, c)
		require.Equal(t, seq, c.Last)
	}
	appendAt(7, recordOf(6, "behind a hole"))
	require.ErrorIs(t, result.Err(r.Next(6)), ErrGone)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}

// A value may contain a copy of a log. While such a value is written, or if the writer is killed, the copy is no
// change.
func TestACopyOfALogInAnUnfinishedRecordIsNoChange(t *testing.T) {
	s := newStore(t, vfs.NewMem())
	f := result.Of(s.fsys.Create(filepath.Join("db", base.FileName(base.FileLog, 5))))(t)
	first := fixture.Log(t, recordOf(1, "key"))
	require.NoError(t, result.Err(f.Write(first)))
	r := NewReader(NewDirectory(s.fsys, "db", nil), 0, ReaderOptions{FS: s.fsys, Cmp: base.Bytewise})
	c := result.Of(r.Next(1))(t)
	require.EqualValues(t, 1, c.Last)
	unfinished := fixture.Log(t, recordOf(2, string(fixture.Log(t, recordOf(2, "copied")))))
	clear(unfinished[:7])
	require.NoError(t, result.Err(f.Write(append(unfinished, make([]byte, 64<<10)...))))
	require.ErrorIs(t, result.Err(r.Next(2)), ErrGone)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}
