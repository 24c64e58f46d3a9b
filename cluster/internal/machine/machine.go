package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Options configure Open. Dir is required.
type Options struct {
	// Dir is the directory of the replica.
	Dir string
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger gets messages. Default: none.
	Logger *slog.Logger
	// DB may change the options of the database, for example its Resources. Default: no change.
	DB func(*db.Options)
	// Failed is called once, on a goroutine of its own, when the machine has failed. After a successful
	// InstallState it may be called again.
	Failed func(error)
	// BytesPerSecond limits each state that is sent. Default: no limit.
	BytesPerSecond int64
}

// Errors of machines.
var (
	// ErrSuperseded is the response to an entry that does not count: all replicas skip it.
	ErrSuperseded = layout.ErrSuperseded
	// ErrStream refuses the stream of a state.
	ErrStream = errors.New("the stream of a state is damaged")
	// ErrNoState says that STATE is missing, although the directory has states.
	ErrNoState = errors.New("the file STATE is missing; heal this replica from another one, or restore the file")
)

// Machine is the state of one replica. Its methods may be called from any goroutine.
type Machine struct {
	o      Options
	fs     vfs.FS
	logger *slog.Logger

	ctx     context.Context // done when the machine is closed
	cancel  func()
	numbers atomic.Uint64 // the largest number of a directory
	waiters waiters
	retired sync.WaitGroup // states that wait for their last user

	// writing is held while the state changes: by batches of entries, by Persist, and by the switch to
	// another state. It guards what follows.
	writing        sync.Mutex
	batch, payload db.Batch

	// mu guards what follows. present changes with writing and mu held.
	mu       sync.RWMutex
	present  *state
	incoming *incoming // received and not yet restored
	err      error     // why the machine failed
	closed   bool
}

var _ raft.BatchingFSM = (*Machine)(nil)

// Open opens the state in a directory, or creates an empty one.
func Open(o Options) (*Machine, error) {
	m := &Machine{o: o, fs: o.FS, logger: o.Logger}
	if m.fs == nil {
		m.fs = vfs.OS
	}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	st, err := m.openPresent()
	if err != nil {
		m.cancel()
		return nil, fmt.Errorf("open the state of a replica: %w", err)
	}
	m.mu.Lock()
	m.present = st
	m.mu.Unlock()
	m.waiters.advance(st.at.Load().index)
	return m, nil
}

// openPresent opens the state that STATE names, and removes the others.
func (m *Machine) openPresent() (*state, error) {
	if err := vfs.MkdirAllSynced(m.fs, m.o.Dir); err != nil {
		return nil, err
	}
	p, err := readPointer(m.fs, m.o.Dir)
	if err != nil {
		return nil, err
	}
	states, err := m.removeLeftovers(p)
	switch {
	case err != nil:
		return nil, err
	case p.name == "" && states > 0:
		return nil, ErrNoState
	case p.name == "":
		p = pointer{name: m.newName(statePrefix), creating: true}
		if _, err := writePointer(m.fs, m.o.Dir, p); err != nil {
			return nil, err
		}
	}
	if !p.creating {
		return m.openState(p.name)
	}
	return m.create(p)
}

// create makes an empty state. A crash may have left one that was not in use.
func (m *Machine) create(p pointer) (*state, error) {
	if err := files.RemoveAll(m.fs, m.path(p.name)); err != nil {
		return nil, err
	}
	if err := vfs.MkdirAllSynced(m.fs, m.path(p.name)); err != nil {
		return nil, err
	}
	st, err := m.openState(p.name)
	if err != nil {
		return nil, err
	}
	if _, err := writePointer(m.fs, m.o.Dir, pointer{name: p.name}); err != nil {
		return nil, errors.Join(err, st.db.Close())
	}
	return st, nil
}

// removeLeftovers removes what a crash left: directories that p does not name, and an unfinished STATE. Without a p it
// only counts the states.
func (m *Machine) removeLeftovers(p pointer) (states int, err error) {
	names, err := m.fs.List(m.o.Dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if name == pointerTemp {
			if err := m.fs.Remove(m.path(name)); err != nil {
				return 0, err
			}
		}
		n, ok := dirNumber(name)
		if !ok {
			continue
		}
		m.numbers.Store(max(m.numbers.Load(), n))
		states++
		if p.name == "" || name == p.name {
			continue
		}
		if err := files.RemoveAll(m.fs, m.path(name)); err != nil {
			m.logger.Warn("an old state could not be removed", "dir", name, "err", err)
		}
	}
	return states, nil
}

func (m *Machine) path(name string) string { return filepath.Join(m.o.Dir, name) }

// newName returns a name for a directory that was not used before.
func (m *Machine) newName(prefix string) string {
	return fmt.Sprintf("%s%06d", prefix, m.numbers.Add(1))
}

// openState opens the database in a directory.
func (m *Machine) openState(name string) (*state, error) {
	opts := &db.Options{FS: m.fs, Logger: m.o.Logger}
	if m.o.DB != nil {
		m.o.DB(opts)
	}
	opened := new(atomic.Pointer[state])
	opts.EventListener = m.listener(opts.EventListener, opened)
	d, err := db.Open(m.path(name), opts)
	if err != nil {
		return nil, err
	}
	at, err := readPosition(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	st := newState(name, d, at)
	opened.Store(st)
	return st, nil
}

// listener returns a listener that fails the machine if a background error of the present state is final.
func (m *Machine) listener(base *db.EventListener, opened *atomic.Pointer[state]) *db.EventListener {
	var l db.EventListener
	if base != nil {
		l = *base
	}
	before := l.BackgroundError
	l.BackgroundError = func(err error) {
		if before != nil {
			before(err)
		}
		if !errors.Is(err, db.ErrCorruption) && !errors.Is(err, db.ErrReadOnly) {
			return
		}
		m.mu.RLock()
		present := m.present != nil && m.present == opened.Load()
		m.mu.RUnlock()
		if present {
			m.fail(err)
		}
	}
	return &l
}

// use returns the present state. The caller releases it.
func (m *Machine) use() (*state, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.errLocked(); err != nil {
		return nil, err
	}
	m.present.users.Add(1)
	return m.present, nil
}

func (m *Machine) errLocked() error {
	if m.closed {
		return kv.ErrClosed
	}
	return m.err
}

// Err returns why the machine does not work: it failed or was closed. It is nil if it works.
func (m *Machine) Err() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.errLocked()
}

// fail records the first failure, and returns err.
func (m *Machine) fail(err error) error {
	if errors.Is(err, kv.ErrClosed) {
		return err
	}
	m.mu.Lock()
	first := m.errLocked() == nil
	if first {
		m.err = err
	}
	m.mu.Unlock()
	if !first {
		return err
	}
	m.logger.Error("the state of a replica failed", "err", err)
	m.waiters.stop(err)
	if m.o.Failed != nil {
		go m.o.Failed(err) // it may close the machine, which waits for the caller
	}
	return err
}

// failIfDamaged fails the machine if a read found damage, and returns err.
func (m *Machine) failIfDamaged(err error) error {
	if errors.Is(err, db.ErrCorruption) {
		return m.fail(err)
	}
	return err
}

// Damaged fails the machine because of damage that was found in the files of its state, as a read does that finds it.
// err must match db.ErrCorruption.
func (m *Machine) Damaged(err error) { _ = m.failIfDamaged(err) }

// StateDir returns the directory of the present state's database. Another state may take its place at any time.
func (m *Machine) StateDir() string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.path(m.present.name)
}

// at returns the position of the present state.
func (m *Machine) at() *position {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.present.at.Load()
}

// Applied returns the index and term of the last entry that was applied, 0 and 0 if there is none.
func (m *Machine) Applied() (index, term uint64) {
	at := m.at()
	return at.index, at.term
}

// Chain returns the place of the last entry that counted.
func (m *Machine) Chain() layout.Chain { return m.at().chain }

// Clock returns the time by which keys expire, as applied, in milliseconds since 1970.
func (m *Machine) Clock() int64 { return m.at().clock }

// Configuration returns the configuration that was applied last, and its index.
func (m *Machine) Configuration() (raft.Configuration, uint64) {
	at := m.at()
	return at.configuration.Clone(), at.configIndex
}

// WaitApplied waits until the entry with an index is applied. It returns the error of the machine if it fails or is
// closed.
func (m *Machine) WaitApplied(ctx context.Context, index uint64) error {
	return m.waiters.wait(ctx, index)
}

// WithDB calls f with the database, also if the machine has failed. The state stays in place until f returns; f must
// not write or close it.
func (m *Machine) WithDB(f func(*db.DB) error) error {
	m.mu.RLock()
	st := m.present
	if m.closed {
		m.mu.RUnlock()
		return kv.ErrClosed
	}
	st.users.Add(1)
	m.mu.RUnlock()
	defer st.release()
	return f(st.db)
}

// Close waits for those who read, and closes the state. raft must have ended. A second Close returns kv.ErrClosed.
func (m *Machine) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return kv.ErrClosed
	}
	m.closed = true
	st := m.present
	m.mu.Unlock()
	m.cancel()
	m.waiters.stop(kv.ErrClosed)
	st.release()
	<-st.unused
	m.retired.Wait()
	return st.db.Close()
}
