package wrap_test

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/vfstest"
	"github.com/sievedb/sievedb/vfs"
)

// everyOperation does an operation of each kind and returns the errors. After a failed MkdirAll or
// Create it continues with the result of fallback, so the later operations still run.
func everyOperation(fsys, fallback vfs.FS) []error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	note(fsys.MkdirAll("d"))
	_ = fallback.MkdirAll("d")
	f, err := fsys.Create("d/a")
	note(err)
	if err != nil {
		f, _ = fallback.Create("d/a")
	}
	_, err = f.Write([]byte("abc"))
	note(err)
	_, err = f.ReadAt(nil, 0)
	note(err)
	_, err = f.Size()
	note(err)
	note(f.Sync())
	note(f.Close())
	r, err := fsys.Open("d/a")
	note(err)
	if err == nil {
		note(r.Close())
	}
	log, err := vfs.CreateLog(fsys, "d/log")
	note(err)
	if err == nil {
		_, err = log.Write([]byte("abc"))
		note(err)
		note(log.(vfs.LogFile).Cut())
		note(log.Close())
	}
	note(fsys.Link("d/a", "d/b"))
	note(fsys.Rename("d/a", "d/c"))
	note(fsys.SyncDir("d"))
	_, err = fsys.List("d")
	note(err)
	_, err = fsys.Stat("d")
	note(err)
	l, err := fsys.Lock("d/LOCK", true)
	note(err)
	if err == nil {
		_ = l.Close()
	}
	note(fsys.Remove("d/LOCK"))
	return errs
}

func TestOperationIndexesCountFromZero(t *testing.T) {
	var seen []wrap.Op
	faulty := wrap.NewFaulty(vfs.NewMem(), func(op wrap.Op) *wrap.Fault {
		seen = append(seen, op)
		return nil
	})
	for _, err := range everyOperation(faulty, vfs.NewMem()) {
		require.NoError(t, err)
	}
	kinds := map[wrap.OpKind]bool{}
	for i, op := range seen {
		require.EqualValues(t, i, op.Index)
		kinds[op.Kind] = true
	}
	require.Len(t, kinds, 17, "the hook is called for every kind of operation")
	require.EqualValues(t, len(seen), faulty.Ops())
	require.Equal(t, wrap.Op{Index: 2, Kind: wrap.OpWrite, Name: "d/a", Offset: 0, Length: 3}, seen[2])
}

func TestFailNthFailsOnlyThatOperation(t *testing.T) {
	clean := wrap.NewFaulty(vfs.NewMem(), nil)
	everyOperation(clean, vfs.NewMem())
	for n := range clean.Ops() {
		mem := vfs.NewMem()
		var failed wrap.Op
		hook := wrap.FailNth(n, syscall.EIO)
		faulty := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			fault := hook(op)
			if fault != nil {
				failed = op
			}
			return fault
		})
		failures := 0
		for _, err := range everyOperation(faulty, mem) {
			// Later operations may fail too, because operation n was not done.
			if errors.Is(err, syscall.EIO) {
				failures++
				require.Contains(t, err.Error(), failed.Kind.String())
				require.Contains(t, err.Error(), failed.Name)
				require.Contains(t, err.Error(), failed.NewName)
			}
		}
		require.Equal(t, 1, failures, "operation %d, %v", n, failed.Kind)
	}
}

func TestFailFromFailsAllLaterOperations(t *testing.T) {
	faulty := wrap.NewFaulty(vfs.NewMem(), wrap.FailFrom(2, syscall.ENOSPC))
	require.NoError(t, faulty.MkdirAll("d"))
	f := result.Of(faulty.Create("d/a"))(t)
	for range 3 {
		require.ErrorIs(t, result.Err(f.Write([]byte("abc"))), syscall.ENOSPC)
		require.ErrorIs(t, f.Sync(), syscall.ENOSPC)
		require.ErrorIs(t, faulty.Remove("d/a"), syscall.ENOSPC)
	}
}

func TestFailedOperationIsNotDone(t *testing.T) {
	mem := vfs.NewMem()
	s := vfstest.Script{T: t, Mem: mem}
	s.Durable("a", "x")
	faulty := wrap.NewFaulty(mem, wrap.FailFrom(0, nil))
	require.ErrorIs(t, faulty.Remove("a"), wrap.ErrInjected)
	err := faulty.Rename("a", "b")
	require.ErrorIs(t, err, wrap.ErrInjected)
	var link *os.LinkError
	require.ErrorAs(t, err, &link)
	require.Equal(t, "rename a b: vfs: injected fault", err.Error())
	require.ErrorIs(t, faulty.Link("a", "b"), wrap.ErrInjected)
	require.ErrorIs(t, faulty.MkdirAll("d"), wrap.ErrInjected)
	require.ErrorIs(t, result.Err(faulty.Create("c")), wrap.ErrInjected)
	require.ErrorIs(t, result.Err(faulty.Lock("LOCK", false)), wrap.ErrInjected)
	require.Equal(t, map[string]string{"a": "x"}, vfstest.Tree(t, mem, "."))
}

func TestFailedSyncMakesNothingDurable(t *testing.T) {
	mem := vfs.NewMem()
	faulty := wrap.NewFaulty(mem, wrap.FailIf(syscall.EIO, func(op wrap.Op) bool { return op.Kind == wrap.OpSync }))
	f := result.Of(faulty.Create("a"))(t)
	require.NoError(t, result.Err(f.Write([]byte("abc"))))
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.NoError(t, faulty.SyncDir("."))
	require.Equal(t, map[string]string{"a": ""}, vfstest.Tree(t, mem.Crash(), "."))
}

func TestFailedCloseStillClosesTheFile(t *testing.T) {
	cnt := wrap.NewCounting(vfs.NewMem())
	faulty := wrap.NewFaulty(cnt, wrap.FailIf(syscall.EIO, func(op wrap.Op) bool { return op.Kind == wrap.OpClose }))
	f := result.Of(faulty.Create("a"))(t)
	require.ErrorIs(t, f.Close(), syscall.EIO)
	require.Zero(t, cnt.Snapshot().Total.OpenFiles)
}

func TestShortWriteAppendsItsBytesAndFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		short int
		want  string
	}{
		{"none", 0, "before"},
		{"one", 1, "before1"},
		{"half", 4, "before1234"},
		{"all but one", 7, "before1234567"},
		{"all, and reported as failed", 8, "before12345678"},
		{"more than the length is all", 99, "before12345678"},
		{"a negative number is none", -1, "before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			var offsets []int64
			faulty := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if op.Kind == wrap.OpWrite {
					offsets = append(offsets, op.Offset)
				}
				if op.Index == 2 {
					return &wrap.Fault{Err: syscall.ENOSPC, Short: c.short}
				}
				return nil
			})
			f := result.Of(faulty.Create("a"))(t)
			require.NoError(t, result.Err(f.Write([]byte("before"))))
			n, err := f.Write([]byte("12345678"))
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.Equal(t, "write a: "+syscall.ENOSPC.Error(), err.Error())
			require.Equal(t, len(c.want)-len("before"), n)
			require.Equal(t, c.want, vfstest.Tree(t, mem, ".")["a"])
			require.NoError(t, result.Err(f.Write([]byte("!"))))
			require.Equal(t, []int64{0, 6, int64(len(c.want))}, offsets)
		})
	}
}

func TestShortReadReturnsItsBytesAndFails(t *testing.T) {
	mem := vfs.NewMem()
	vfstest.Script{T: t, Mem: mem}.Durable("a", "0123456789")
	for _, c := range []struct {
		name  string
		fault wrap.Fault
		at    int64
		want  string
		is    error
	}{
		{"some bytes", wrap.Fault{Short: 3, Err: syscall.EIO}, 2, "234", syscall.EIO},
		{"no bytes", wrap.Fault{Err: syscall.EIO}, 2, "", syscall.EIO},
		{"a false end of file, not wrapped", wrap.Fault{Short: 2, Err: io.EOF}, 0, "01", io.EOF},
		{"fewer than requested, without an error", wrap.Fault{Short: 3, Quiet: true, Err: syscall.EIO}, 2, "234", nil},
		{"none, without an error", wrap.Fault{Quiet: true}, 2, "", nil},
		{"the true end of the file", wrap.Fault{Short: 4, Quiet: true}, 8, "89", io.EOF},
		{"no more than the file has", wrap.Fault{Short: 4}, 8, "89", wrap.ErrInjected},
	} {
		t.Run(c.name, func(t *testing.T) {
			faulty := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if op.Kind == wrap.OpRead {
					return &c.fault
				}
				return nil
			})
			f := result.Of(faulty.Open("a"))(t)
			b := make([]byte, 6)
			n, err := f.ReadAt(b, c.at)
			require.Equal(t, c.want, string(b[:n]))
			require.ErrorIs(t, err, c.is)
			if c.is == io.EOF {
				require.Equal(t, io.EOF, err)
			}
			require.NoError(t, f.Close())
		})
	}
}

// logOf returns a log of a Faulty over a Mem, and the operations that its hook saw. hook may be nil.
func logOf(t *testing.T, hook func(op wrap.Op) *wrap.Fault) (log vfs.LogFile, mem *vfs.Mem, seen *[]wrap.Op) {
	t.Helper()
	mem, seen = vfs.NewMem(), &[]wrap.Op{}
	faulty := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		*seen = append(*seen, op)
		if hook == nil {
			return nil
		}
		return hook(op)
	})
	f := result.Of(faulty.CreateLog("log"))(t)
	return f.(vfs.LogFile), mem, seen
}

func TestTheHookSeesHowALogIsReserved(t *testing.T) {
	log, mem, seen := logOf(t, nil)
	for _, n := range []int{10, 64<<10 - 10, 1, 300 << 10} {
		require.NoError(t, result.Err(log.Write(make([]byte, n))))
		info := result.Of(mem.Stat("log"))(t)
		last := (*seen)[len(*seen)-2]
		if n != 64<<10-10 {
			require.Equal(t, wrap.OpReserve, last.Kind)
			require.Equal(t, info.Size(), last.Offset+int64(last.Length))
		}
	}
	require.NoError(t, log.Cut())
	require.NoError(t, log.Close())
	require.Equal(t, []wrap.Op{
		{Index: 0, Kind: wrap.OpCreate, Name: "log"},
		{Index: 1, Kind: wrap.OpReserve, Name: "log", Length: 64 << 10},
		{Index: 2, Kind: wrap.OpWrite, Name: "log", Length: 10},
		{Index: 3, Kind: wrap.OpWrite, Name: "log", Offset: 10, Length: 64<<10 - 10},
		{Index: 4, Kind: wrap.OpReserve, Name: "log", Offset: 64 << 10, Length: 64 << 10},
		{Index: 5, Kind: wrap.OpWrite, Name: "log", Offset: 64 << 10, Length: 1},
		{Index: 6, Kind: wrap.OpReserve, Name: "log", Offset: 128 << 10, Length: 256 << 10},
		{Index: 7, Kind: wrap.OpWrite, Name: "log", Offset: 64<<10 + 1, Length: 300 << 10},
		{Index: 8, Kind: wrap.OpCut, Name: "log"},
		{Index: 9, Kind: wrap.OpClose, Name: "log"},
	}, *seen)
}

func TestAFailedReservationAppendsNothing(t *testing.T) {
	for _, c := range []struct {
		cause    error
		attempts []int // lengths
	}{
		{syscall.EIO, []int{64 << 10}},
		{syscall.ENOSPC, []int{64 << 10, 32 << 10}},
	} {
		full := true
		log, mem, seen := logOf(t, func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpReserve && full {
				return &wrap.Fault{Err: c.cause, Short: 3}
			}
			return nil
		})
		n, err := log.Write([]byte("0123456789"))
		require.ErrorIs(t, err, c.cause)
		require.Equal(t, "reserve space for log: "+c.cause.Error(), err.Error())
		require.Zero(t, n)
		require.Equal(t, map[string]string{"log": ""}, vfstest.Tree(t, mem, "."))
		var attempts []int
		for _, op := range (*seen)[1:] {
			attempts = append(attempts, op.Length)
		}
		require.Equal(t, c.attempts, attempts, "without space, the least is tried")
		full = false
		require.NoError(t, result.Err(log.Write([]byte("0123456789"))))
		require.Equal(t, "0123456789", vfstest.Content(t, log))
	}
}

// The bytes of a record are stored before its head.
func TestAShortWriteToALogHasNoHead(t *testing.T) {
	for short, want := range map[int]string{
		0: "", 3: "\x00\x00\x00", 9: "\x00\x00\x00\x00\x00\x00\x0078", 10: "0123456789", 99: "0123456789",
	} {
		log, _, _ := logOf(t, func(op wrap.Op) *wrap.Fault {
			if op.Kind == wrap.OpWrite {
				return &wrap.Fault{Err: syscall.EIO, Short: short}
			}
			return nil
		})
		n, err := log.Write([]byte("0123456789"))
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, len(want), n)
		require.Equal(t, want, vfstest.Content(t, log))
	}
}

func TestAFailedCutLeavesTheZeros(t *testing.T) {
	log, mem, _ := logOf(t, wrap.FailIf(syscall.EIO, func(op wrap.Op) bool { return op.Kind == wrap.OpCut }))
	require.NoError(t, result.Err(log.Write([]byte("a"))))
	err := log.Cut()
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, "cut log: "+syscall.EIO.Error(), err.Error())
	info := result.Of(mem.Stat("log"))(t)
	require.EqualValues(t, 64<<10, info.Size())
}
