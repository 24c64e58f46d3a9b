package logstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// Options configure Open. The zero value works.
type Options struct {
	// FS is the file system. Default: the operating system's.
	FS vfs.FS
	// Logger gets messages. Default: none.
	Logger *slog.Logger
	// DB may change the options of the database, for example its Resources. Default: no change.
	DB func(*db.Options)
	// Failed is called once, on a goroutine of its own, when the store has failed: it takes no more writes, or
	// found damage. The node must open it again, or replace it.
	Failed func(error)
}

// Store has the logs of all groups of a node.
type Store struct {
	db     *db.DB
	logger *slog.Logger
	failed func(error)

	wake    chan struct{} // of writeLoop
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when writeLoop has ended
	taken   []taken       // what writeLoop writes
	once    sync.Once

	mu     sync.Mutex
	groups map[kv.GroupID]*Group // guarded by mu
	err    error                 // guarded by mu: the first failure
}

// Open opens or creates the store in a directory.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{
		logger: o.Logger, failed: o.Failed, groups: make(map[kv.GroupID]*Group),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.db, err = db.Open(dir, s.dbOptions(o)); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	if err = s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the log store: %w", err), s.db.Close())
	}
	go s.writeLoop()
	return s, nil
}

// dbOptions returns the options of the database. Memtables are four times as large as by default:
// most entries are deleted soon, and those that are deleted before their flush never reach a table.
func (s *Store) dbOptions(o Options) *db.Options {
	opts := &db.Options{FS: o.FS, Logger: o.Logger, Memtables: db.MemtableOptions{Size: 32 << 20}}
	if o.DB != nil {
		o.DB(opts)
	}
	var l db.EventListener
	if opts.EventListener != nil {
		l = *opts.EventListener
	}
	before := l.BackgroundError
	l.BackgroundError = func(err error) {
		if before != nil {
			before(err)
		}
		if errors.Is(err, db.ErrCorruption) || errors.Is(err, db.ErrReadOnly) {
			s.fail(err)
		}
	}
	opts.EventListener = &l
	return opts
}

// load reads which groups there are, and where their logs begin and end.
func (s *Store) load() error {
	return s.eachGroup(func(id kv.GroupID, it *db.Iterator) error {
		g := newGroup(s, id)
		s.groups[id] = g
		return g.load(it)
	})
}

// eachGroup calls f for each group that has an entry or a value, ascending, with an iterator at its first key.
func (s *Store) eachGroup(f func(id kv.GroupID, it *db.Iterator) error) (err error) {
	it, err := s.db.NewIterator(&db.IterOptions{KeysOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		id, err := parseGroup(it.Key())
		if err != nil {
			return err
		}
		if err := f(id, it); err != nil {
			return err
		}
		if id == math.MaxUint32 {
			break
		}
		ok = it.SeekGE(appendGroup(nil, id+1))
	}
	return it.Err()
}

// Group returns the log of a group, which is empty if it is new.
func (s *Store) Group(id kv.GroupID) *Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[id]
	if g == nil {
		g = newGroup(s, id)
		s.groups[id] = g
	}
	return g
}

// Groups returns the groups that have an entry or a value, ascending.
func (s *Store) Groups() (ids []kv.GroupID, err error) {
	err = s.eachGroup(func(id kv.GroupID, _ *db.Iterator) error {
		ids = append(ids, id)
		return nil
	})
	return ids, s.failIfDamaged(err)
}

// DB returns the database, for its metrics and for backups.
func (s *Store) DB() *db.DB { return s.db }

// Err returns why the store failed, or nil.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close closes the store.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.closing) })
	<-s.ended
	return s.db.Close()
}

// apply writes a batch. The first error is final, except for a batch that is too large, which changes nothing.
func (s *Store) apply(b *db.Batch, wo *db.WriteOptions) error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.failUnlessRefused(s.db.Apply(b, wo))
}

// failUnlessRefused fails the store if a write failed and was not merely refused, and returns err.
func (s *Store) failUnlessRefused(err error) error {
	if err == nil || errors.Is(err, db.ErrTooLarge) || errors.Is(err, db.ErrClosed) {
		return err
	}
	return s.fail(err)
}

// failIfDamaged fails the store if a read found damage, and returns err.
func (s *Store) failIfDamaged(err error) error {
	if errors.Is(err, db.ErrCorruption) {
		return s.fail(err)
	}
	return err
}

// Damaged fails the store because of damage that was found in its files, as a read does that finds it. err must match
// db.ErrCorruption.
func (s *Store) Damaged(err error) { _ = s.failIfDamaged(err) }

// fail records the first failure and returns err.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
	}
	s.mu.Unlock()
	if first {
		s.logger.Error("the log store failed", "err", err)
		if s.failed != nil {
			go s.failed(err) // it may close the store, which waits for the caller
		}
	}
	return err
}

// deleteRange deletes keys from start to limit. It needs no sync: entries that a power cut brings back
// are covered by the state, or are from before a conflict that was not acknowledged yet.
func (s *Store) deleteRange(start, limit []byte) error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.failUnlessRefused(s.db.DeleteRange(context.Background(), start, limit, db.Buffered))
}

func appendGroup(dst []byte, id kv.GroupID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// parseGroup returns the group of a key.
func parseGroup(key []byte) (kv.GroupID, error) {
	if len(key) < 5 || key[4] != stableTag && (key[4] != logTag || len(key) != logKeyLen) {
		return 0, fmt.Errorf("the log store has a key of %d bytes that is not of its format", len(key))
	}
	return kv.GroupID(binary.BigEndian.Uint32(key)), nil
}
