package wrap

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/vfs"
)

// ErrInjected is the error of a Fault whose Err is nil.
var ErrInjected = errors.Sentinel("vfs: injected fault")

// Fault describes how an operation fails.
type Fault struct {
	// Err is the cause that the error of the operation wraps; nil means ErrInjected. io.EOF is
	// returned without wrapping, as at the end of a file.
	Err error
	// Short is how many bytes a Write appends, or a ReadAt reads, before it fails. A Short above
	// the length of the operation means its length. The first vfs.LogHead bytes of a Write to a
	// vfs.LogFile that is cut short are zeros, because they are stored last.
	Short int
	// Quiet makes a ReadAt return its Short bytes without an error. io.ReaderAt does not allow that, but a broken layer
	// below may do it. Err has no effect then. Operations other than ReadAt succeed as if there were no fault.
	Quiet bool
}

// Faulty is a file system that wraps another one. It calls a hook before each operation, which decides
// whether the operation fails.
type Faulty struct {
	names
	hook func(Op) *Fault
	ops  atomic.Uint64
}

// NewFaulty returns a Faulty over fsys. It calls hook before each operation, on the goroutine of the operation and
// without holding a lock. If hook is nil or returns nil, the operation is done. Operations have indexes from 0 in the
// order in which they begin. The calls of hook by several goroutines may be in a different order.
//
// An operation that fails is not done, with two exceptions: Fault.Short, and Close, which closes the
// file and then fails, like close(2).
//
// Before a Write makes a vfs.LogFile longer than its reserved space, the hook is called for OpReserve.
// If that fails for lack of space, as by base.IsNoSpace, it is called once more, for the least that is
// needed. If the file below reserves in other steps, these are still those of the hook.
func NewFaulty(fsys vfs.FS, hook func(Op) *Fault) *Faulty {
	y := &Faulty{hook: hook}
	y.names = names{fsys, y.do}
	return y
}

// FailNth returns a hook that fails only operation n, with err.
func FailNth(n uint64, err error) func(Op) *Fault {
	return FailIf(err, func(op Op) bool { return op.Index == n })
}

// FailFrom returns a hook that fails operation n and all later ones with err.
func FailFrom(n uint64, err error) func(Op) *Fault {
	return FailIf(err, func(op Op) bool { return op.Index >= n })
}

// FailIf returns a hook that fails the operations for which chosen returns true with err.
func FailIf(err error, chosen func(Op) bool) func(Op) *Fault {
	return func(op Op) *Fault {
		if !chosen(op) {
			return nil
		}
		return &Fault{Err: err}
	}
}

// Ops returns the number of operations so far, which is the index of the next one.
func (y *Faulty) Ops() uint64 { return y.ops.Load() }

// begin numbers the operation and calls the hook. It returns the error of the operation, or nil if
// there is no fault. limit is the number of bytes that it may read or write.
func (y *Faulty) begin(op Op) (limit int, err error) {
	op.Index = y.ops.Add(1) - 1
	var fault *Fault
	if y.hook != nil {
		fault = y.hook(op)
	}
	if fault == nil || fault.Quiet && op.Kind != OpRead {
		return op.Length, nil
	}
	limit = max(0, min(fault.Short, op.Length))
	switch {
	case fault.Quiet:
		return limit, nil
	case fault.Err == nil:
		return limit, op.fail(ErrInjected)
	}
	return limit, op.fail(fault.Err)
}

// do does an operation unless it fails.
func (y *Faulty) do(op Op, do func() error) error {
	if _, err := y.begin(op); err != nil {
		return err
	}
	return do()
}

// Create implements FS.
func (y *Faulty) Create(name string) (vfs.File, error) { return y.open(OpCreate, name, y.fs.Create) }

// CreateLog implements vfs.LogCreator.
func (y *Faulty) CreateLog(name string) (vfs.File, error) {
	f, err := y.open(OpCreate, name, func(name string) (vfs.File, error) { return vfs.CreateLog(y.fs, name) })
	if err != nil {
		return nil, err
	}
	file := f.(*faultyFile)
	if l, ok := file.f.(vfs.LogFile); ok {
		return &faultyLog{faultyFile: file, log: l}, nil
	}
	return file, nil
}

// Open implements FS.
func (y *Faulty) Open(name string) (vfs.File, error) { return y.open(OpOpen, name, y.fs.Open) }

func (y *Faulty) open(kind OpKind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if _, err := y.begin(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{y: y, f: f, name: name}, nil
}

type faultyFile struct {
	y       *Faulty
	f       vfs.File
	name    string
	written atomic.Int64 // bytes appended through this handle
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	limit, fault := f.y.begin(Op{Kind: OpRead, Name: f.name, Offset: off, Length: len(p)})
	if limit == 0 && len(p) > 0 {
		return 0, fault
	}
	n, err := f.f.ReadAt(p[:limit], off)
	if fault != nil {
		return n, fault // the injected fault, even if err is not nil
	}
	return n, err
}

func (f *faultyFile) Write(p []byte) (int, error) {
	limit, fault := f.y.begin(Op{Kind: OpWrite, Name: f.name, Offset: f.written.Load(), Length: len(p)})
	if fault == nil {
		return f.append(p)
	}
	if limit == 0 {
		return 0, fault
	}
	n, _ := f.append(p[:limit])
	return n, fault
}

func (f *faultyFile) append(p []byte) (int, error) {
	n, err := f.f.Write(p)
	f.written.Add(int64(n))
	return n, err
}

func (f *faultyFile) Sync() error { return f.y.do(Op{Kind: OpSync, Name: f.name}, f.f.Sync) }

func (f *faultyFile) Size() (int64, error) {
	return asked(&f.y.names, OpSize, f.name, func(string) (int64, error) { return f.f.Size() })
}

func (f *faultyFile) Close() error {
	_, fault := f.y.begin(Op{Kind: OpClose, Name: f.name})
	err := f.f.Close()
	if fault != nil {
		return fault
	}
	return err
}

// faultyLog is a faultyFile over a vfs.LogFile.
type faultyLog struct {
	*faultyFile
	log      vfs.LogFile
	reserved int64 // length of the file; used by Write alone
}

func (l *faultyLog) Write(p []byte) (int, error) {
	if err := l.reserve(l.written.Load() + int64(len(p))); err != nil {
		return 0, err
	}
	limit, fault := l.y.begin(Op{Kind: OpWrite, Name: l.name, Offset: l.written.Load(), Length: len(p)})
	if fault == nil || limit == len(p) && limit > 0 {
		n, err := l.append(p)
		return n, errors.CombineErrors(fault, err)
	}
	torn := bytes.Clone(p[:limit])
	clear(torn[:min(limit, vfs.LogHead)])
	if limit == 0 {
		return 0, fault
	}
	n, _ := l.append(torn)
	return n, fault
}

// reserve calls the hook if the file needs more space for end bytes.
func (l *faultyLog) reserve(end int64) error {
	to, least := base.LogReserve(l.reserved, end), base.LeastLogReserve(end)
	if to == l.reserved {
		return nil
	}
	err := l.beginReserve(to)
	if base.IsNoSpace(err) && least < to {
		to = least
		err = l.beginReserve(to)
	}
	if err == nil {
		l.reserved = to
	}
	return err
}

func (l *faultyLog) beginReserve(to int64) error {
	_, err := l.y.begin(Op{Kind: OpReserve, Name: l.name, Offset: l.reserved, Length: int(to - l.reserved)})
	return err
}

// WriteParts implements vfs.LogFile.
func (l *faultyLog) WriteParts(parts ...[]byte) (int, error) { return l.Write(slices.Concat(parts...)) }

// Cut implements vfs.LogFile.
func (l *faultyLog) Cut() error { return l.y.do(Op{Kind: OpCut, Name: l.name}, l.log.Cut) }
