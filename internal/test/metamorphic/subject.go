package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	reports "github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/vfs"
)

// Store is the part of *db.DB that a history uses. A test may wrap it in something broken.
type Store interface {
	keyed
	Apply(b *db.Batch, wo *db.WriteOptions) error
	Update(fn func(t *db.Transaction) error) error
	Namespace(name string) (*db.Namespace, error)
	Namespaces() ([]string, error)
	NewTransaction(o *db.TransactionOptions) *db.Transaction
	NewBulkTransaction() (*db.BulkTransaction, error)
	NewLoader() (*db.Loader, error)
	Ingest(ctx context.Context, paths []string, o *db.IngestOptions) (reports.Ingest, error)
	NewSnapshot() *db.Snapshot
	Flush() error
	SyncLog() error
	Compact(ctx context.Context, start, limit []byte) error
	UpgradeFilters(ctx context.Context, policy filter.Policy, o *db.UpgradeOptions) (db.UpgradeReport, error)
	Check(ctx context.Context) (*db.CheckReport, error)
	Options() db.Options
	Metrics() *db.Metrics
	SetOptions(o *db.Options) error
	Close() error
}

// OpenFunc opens a store. OpenDB is the one that is under test.
type OpenFunc func(dir string, o *db.Options) (Store, error)

// OpenDB is db.Open.
func OpenDB(dir string, o *db.Options) (Store, error) { return db.Open(dir, o) }

// subject is one run of a history on a store.
type subject struct {
	history *History
	open    OpenFunc
	sets    []*db.Options // the first opening has the first set, and so on, around
	opened  int

	now      atomic.Int64 // the clock, in milliseconds
	latest   int64        // that it has shown
	disk     *vfs.Mem
	checker  *order.FS
	counting *wrap.Counting
	store    Store
	names

	snapshots [slots]*db.Snapshot
	iterators [slots]*db.Iterator
	loader    *db.Loader
	txn       txn
	ofTxn     db.Reader // the same
	own       []Write   // of it

	mu         sync.Mutex
	background []error // errors that the listener received
}

func newSubject(h *History, open OpenFunc, sets []*db.Options) *subject {
	s := &subject{history: h, open: open, sets: sets}
	s.latest = 1_700_000_000_000
	s.now.Store(s.latest)
	s.plugIn(vfs.NewMem())
	return s
}

// plugIn puts the watchers over a disk.
func (s *subject) plugIn(disk *vfs.Mem) {
	s.disk = disk
	s.checker = order.New(disk)
	s.counting = wrap.NewCounting(s.checker)
}

const dir = "db"

func (s *subject) openStore(readOnly bool) error {
	o := *s.sets[s.opened%len(s.sets)]
	expiring := s.expiring()
	s.opened++
	o.FS, o.Comparer, o.ReadOnly = s.counting, s.history.Comparer, readOnly
	if !o.Comparer.IsBytewise() { // they go by the order of bytes
		o.Filters.RangePolicies = nil
	}
	o.Expiry = db.ExpiryOptions{Prefixes: expiring, Clock: func() time.Time { return time.UnixMilli(s.now.Load()) }}
	o.EventListener = &db.EventListener{BackgroundError: func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.background = append(s.background, err)
	}}
	var err error
	if s.store, err = s.open(dir, &o); err != nil {
		return err
	}
	return s.openNamespace()
}

// expiring returns the prefixes for the next opening: all at the first one, which records them, and later all, none or
// some, which makes no difference.
func (s *subject) expiring() [][]byte {
	var all [][]byte
	for _, prefix := range s.history.Expiring {
		all = append(all, s.named([]Write{{Key: prefix}})[0].Key)
	}
	return [][][]byte{all, nil, all[:len(all)/2]}[s.opened%3]
}

// do appends the answer to dst.
func (s *subject) do(dst []byte, o *Op) []byte {
	var err error
	switch o.Kind {
	case Put:
		err = s.put(o)
	case Delete:
		err = s.keys.Delete(o.Key, o.writeOptions())
	case Apply:
		err = s.apply(o)
	case Tick:
		s.tick(o)
	case NewLoad:
		err = s.load(o.Batch)
	case CommitLoad:
		err = s.loader.Commit()
	case DropLoad:
		err = s.loader.Close()
	case Ingest:
		err = s.ingest(o)
	case DeleteRange:
		err = s.keys.DeleteRange(context.Background(), o.Key, o.Limit, o.writeOptions())
	case Contend:
		err = s.contend(o)
	case Get, Has, MultiGet:
		return s.look(dst, o)
	case GetTTL:
		return s.getTTL(dst, o)
	case Swap:
		return s.swap(dst, o)
	case NewTxn:
		err = s.begin(o)
	case WriteTxn:
		s.own = append(s.own, o.Batch...)
		err = writeAll(s.txn, s.named(o.Batch))
	case CommitTxn:
		return s.commit(dst)
	case DropTxn:
		err = s.txn.Close()
	case Sweep:
		err = s.sweep()
	case NewSnapshot:
		s.snapshots[o.Slot] = s.store.NewSnapshot()
	case CloseSnapshot:
		err = s.snapshots[o.Slot].Close()
	case NewIterator:
		s.iterators[o.Slot], err = s.view(o.Of).NewIterator(o.iterOptions())
	case CloneIterator:
		s.iterators[o.Slot], err = s.iterators[o.Of].Clone(o.iterOptions())
	case Loop:
		return s.loop(dst, o)
	case Move:
		return appendMoves(dst, s.iterators[o.Slot], o.Moves)
	case CloseIterator:
		err = s.iterators[o.Slot].Close()
	case Flush:
		err = s.store.Flush()
	case SyncLog:
		err = s.store.SyncLog()
	case Compact:
		bounds := s.boundsOf(o)
		err = s.store.Compact(context.Background(), bounds.LowerBound, bounds.UpperBound)
	case Upgrade:
		_, err = s.store.UpgradeFilters(context.Background(), s.upgradeTo(o), nil)
	case Tune:
		err = s.tune(o)
	case Reopen, OpenReadOnly:
		if s.store.Options().ReadOnly {
			s.now.Store(s.latest) // it cannot record what time it has seen
		}
		if err = s.close(); err == nil {
			err = s.openStore(o.Kind == OpenReadOnly)
		}
	case Crash:
		err = s.crash()
	case Finish:
		if err = s.finish(); err == nil {
			return append(dst, answerSound...)
		}
	}
	return appendOutcome(dst, err)
}

// tick makes sure that the store has seen the time before the clock is set back.
func (s *subject) tick(o *Op) {
	s.latest += int64(o.Of)
	s.now.Store(s.latest)
	s.store.Metrics()
	s.now.Store(s.latest - int64(o.Count))
}

// tune changes the options to those of another set, as far as they can be changed now.
func (s *subject) tune(op *Op) error {
	to, _ := Set(s.history.Seed, op.Of)
	o := s.store.Options()
	o.Memtables, o.Tables, o.Compaction = to.Memtables, to.Tables, to.Compaction
	o.Cache.Size, o.Cache.MaxOpenFiles = to.Cache.Size, to.Cache.MaxOpenFiles
	return s.store.SetOptions(&o)
}

// upgrades are what filters are upgraded to; nil is Options.Filters.Policy.
var upgrades = []filter.Policy{nil, filter.NewBloomPolicy(10), filter.NewCacheLineBloomPolicy(5), filter.FusePolicy{}, filter.NewFusePolicy(5)}

// upgradeTo returns the policy of an Upgrade, if the store reads others than its own.
func (s *subject) upgradeTo(o *Op) filter.Policy {
	set := s.sets[(s.opened-1)%len(s.sets)]
	if set.Filters.Policy == filter.None || s.history.Comparer != nil && s.history.Comparer.InexactEqual {
		return nil
	}
	return upgrades[o.Of]
}

func appendOutcome(dst []byte, err error) []byte {
	switch {
	case err == nil:
		return append(dst, answerDone...)
	case errors.Is(err, db.ErrReadOnly):
		return append(dst, answerReadOnly...)
	case errors.Is(err, db.ErrNotFound):
		return append(dst, answerNotFound...)
	}
	return fmt.Appendf(dst, "error: %v", err)
}

func (o *Op) writeOptions() *db.WriteOptions {
	return &db.WriteOptions{NoSync: !o.Sync, Buffered: o.Buffered}
}

func (w *Write) ttl() time.Duration { return time.Duration(w.TTL) * time.Millisecond }

func (s *subject) put(o *Op) error {
	if o.TTL == 0 {
		return s.keys.Put(o.Key, o.Value, o.writeOptions())
	}
	w := Write{TTL: o.TTL}
	return s.keys.PutTTL(o.Key, o.Value, w.ttl(), o.writeOptions())
}

func (s *subject) apply(o *Op) error {
	if n := len(o.Batch); n > 0 && n%3 == 0 {
		return s.update(o)
	}
	var all, b db.Batch
	for i, w := range s.named(o.Batch) {
		if i == len(o.Batch)/2 {
			all.Append(&b)
			b.Reset()
		}
		switch {
		case w.Range:
			b.DeleteRange(w.Key, w.Limit)
		case w.Delete:
			b.Delete(w.Key)
		case w.TTL > 0:
			b.PutTTL(w.Key, w.Value, w.ttl())
		default:
			b.Put(w.Key, w.Value)
		}
	}
	all.Append(&b)
	return s.store.Apply(&all, o.writeOptions())
}

// writer is what loads and transactions have in common.
type writer interface {
	Put(key, value []byte) error
	PutTTL(key, value []byte, ttl time.Duration) error
	Delete(key []byte) error
}

func writeAll(to writer, writes []Write) error {
	for _, w := range writes {
		var err error
		switch {
		case w.Range:
			err = to.(interface {
				DeleteRange(start, limit []byte) error
			}).DeleteRange(w.Key, w.Limit)
		case w.Delete:
			err = to.Delete(w.Key)
		case w.TTL > 0:
			err = to.PutTTL(w.Key, w.Value, w.ttl())
		default:
			err = to.Put(w.Key, w.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update is apply by a transaction that walks from the first key to the last before it writes.
func (s *subject) update(o *Op) error {
	return s.store.Update(func(t *db.Transaction) error {
		t.SetWriteOptions(o.writeOptions())
		in := s.in(t)
		it, err := in.NewIterator(&db.IterOptions{LowerBound: o.Batch[0].Key})
		if err != nil {
			return err
		}
		for range it.All() {
			if len(it.Key())%2 == 0 {
				break
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
		return writeAll(in.(writer), o.Batch)
	})
}

// load begins a load and writes all of it.
func (s *subject) load(writes []Write) error {
	l, err := s.store.NewLoader()
	if err != nil {
		return err
	}
	s.loader = l
	return writeAll(l, s.named(writes))
}

// view returns a snapshot, or the store for -1.
func (s *subject) view(snapshot int) db.Reader {
	switch snapshot {
	case -1:
		return s.keys
	case inTxn:
		return s.in(s.ofTxn)
	}
	return s.in(s.snapshots[snapshot])
}

// iterOptions are nil for a clone with the options of its iterator.
func (o *Op) iterOptions() *db.IterOptions {
	if o.Same {
		return nil
	}
	return &db.IterOptions{LowerBound: o.Key, UpperBound: o.Limit, NoFillCache: o.NoFill, KeysOnly: o.KeysOnly}
}

// loop goes through the first entries and the last ones.
func (s *subject) loop(dst []byte, o *Op) []byte {
	from := s.view(o.Of)
	for _, loop := range []func(*db.IterOptions) (iter.Seq2[[]byte, []byte], func() error){from.All, from.Backward} {
		entries, failed := loop(o.iterOptions())
		n := 0
		for key, value := range entries {
			dst = appendEntry(dst, key, value)
			if n++; n >= o.Count {
				break
			}
		}
		if err := failed(); err != nil {
			return appendOutcome(dst, err)
		}
	}
	return dst
}

func (s *subject) look(dst []byte, o *Op) []byte {
	from := s.view(o.Slot)
	if o.Kind == MultiGet {
		values, err := from.MultiGet(o.Keys)
		if err != nil {
			return appendOutcome(dst, err)
		}
		return appendValues(dst, values)
	}
	if o.Kind == Has {
		has, err := from.Has(o.Key)
		if err != nil {
			return appendOutcome(dst, err)
		}
		return appendBool(dst, has)
	}
	value, err := from.GetWith([]byte("+"), o.Key, &db.GetOptions{NoFillCache: o.NoFill})
	if err != nil {
		return appendOutcome(dst, err)
	}
	value, ok := bytes.CutPrefix(value, []byte("+"))
	if !ok {
		return append(dst, "what it was appended to is gone"...)
	}
	return appendShown(dst, value)
}

// crash cuts the power: the store that is running keeps the old disk.
func (s *subject) crash() error {
	after := s.disk.Crash()
	s.now.Store(s.latest) // what a crash leaves of the time is another test's
	if err := s.close(); err != nil {
		return err
	}
	s.plugIn(after)
	return s.openStore(false)
}

// close closes the store and looks whether all went as it must.
func (s *subject) close() error {
	if err := s.store.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.background) > 0 {
		return fmt.Errorf("in the background: %w", errors.Join(s.background...))
	}
	if v := s.checker.Violations(); len(v) > 0 {
		return fmt.Errorf("order of operations: %s", strings.Join(v, "\n"))
	}
	if n := s.counting.Snapshot().Total.OpenFiles; n != 0 {
		return fmt.Errorf("%d files are left open", n)
	}
	return nil
}

func (s *subject) finish() error {
	report, err := s.store.Check(context.Background())
	if err != nil {
		return err
	}
	if len(report.Faults) > 0 {
		return fmt.Errorf("check: %s", strings.Join(report.Faults, "\n"))
	}
	if err := errors.Join(s.lookAtNeighbours(), s.close()); err != nil {
		return err
	}
	names, err := s.disk.List(dir)
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); !ok && name != "LOGDIR" || kind == base.FileTemp {
			return fmt.Errorf("%s is left over", name)
		}
	}
	return err
}

// abandon closes what a run that stopped midway had open. What it says is of no interest any more.
func (s *subject) abandon() {
	for i := range slots {
		if s.iterators[i] != nil {
			_ = s.iterators[i].Close()
		}
		if s.snapshots[i] != nil {
			_ = s.snapshots[i].Close()
		}
	}
	if s.loader != nil {
		_ = s.loader.Close()
	}
	if s.txn != nil {
		_ = s.txn.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}
