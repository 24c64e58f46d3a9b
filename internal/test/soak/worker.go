package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/db"
)

// worker writes to its keys and reads them.
type worker struct {
	*model
	d     *db.DB
	rnd   *rand.Rand
	acked func()
	ops   *atomic.Uint64

	snapshot *db.Snapshot // nil: none is held
	then     []uint64     // the versions when it was taken
}

// fewestSteps is what a worker does in a session at least, however slow the machine.
const fewestSteps = 200

// work lets the workers work until ctx ends, and returns their errors. acked is called with the
// worker of each batch once the batch is acknowledged, and ops counts what was done.
func work(ctx context.Context, d *db.DB, models []*model, session int, ops *atomic.Uint64, acked func(worker int)) error {
	var running sync.WaitGroup
	errs := make([]error, workers)
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	for i, m := range models {
		w := &worker{model: m, d: d, ops: ops, acked: func() { acked(i) }, rnd: rand.New(rand.NewPCG(m.seed^uint64(session)<<8, uint64(i)))}
		running.Go(func() {
			if errs[i] = w.run(ctx); errs[i] != nil {
				fail()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func (w *worker) run(ctx context.Context) error {
	for !w.filled() {
		if err := w.write(); err != nil {
			return err
		}
		w.ops.Add(1)
	}
	for step := 0; step < fewestSteps || ctx.Err() == nil; step++ {
		if err := w.step(); err != nil {
			return fmt.Errorf("worker %d after %d batches: %w", w.worker, w.done, err)
		}
		w.ops.Add(1)
	}
	return w.dropSnapshot()
}

// step does one thing of those that the package's comment lists.
func (w *worker) step() error {
	switch p := w.rnd.IntN(10_000); {
	case p < 5500:
		return w.write()
	case p < 8900:
		return w.lookUp(w.d, w.versions)
	case p < 9800:
		return w.scan(w.d, w.versions)
	case p < 9970:
		return w.exchangeSnapshot()
	case p < 9980:
		_, err := readAll(w.d, len(w.versions))
		return err
	case p < 9995:
		return w.d.Flush()
	default:
		from, to := w.someKeys(len(w.versions) / 10)
		return w.d.Compact(context.Background(), keyOf(w.worker, from), keyOf(w.worker, to))
	}
}

func (w *worker) write() error {
	n, writes, sync := w.next()
	var b db.Batch
	for _, one := range writes {
		if one.delete {
			b.Delete(keyOf(w.worker, one.key))
		} else {
			b.Put(keyOf(w.worker, one.key), valueOf(w.worker, one.key, n))
		}
	}
	if err := w.commit(&b, writes, n, &db.WriteOptions{NoSync: !sync}); err != nil {
		return err
	}
	w.acked()
	w.advance()
	return nil
}

// commit uses Put and Delete where one write is all.
func (w *worker) commit(b *db.Batch, writes []write, n uint64, wo *db.WriteOptions) error {
	key := keyOf(w.worker, writes[0].key)
	switch {
	case len(writes) > 1 && n%4 == 0:
		return w.d.Update(func(t *db.Transaction) error {
			t.SetWriteOptions(wo)
			return w.writeIn(t, b)
		})
	case len(writes) > 1:
		return w.d.Apply(b, wo)
	case writes[0].delete:
		return w.d.Delete(key, wo)
	}
	return w.d.Put(key, valueOf(w.worker, writes[0].key, n), wo)
}

// writeIn writes a batch in a transaction that reads what it writes.
func (w *worker) writeIn(t *db.Transaction, b *db.Batch) error {
	for _, e := range b.All() {
		if _, err := t.Has(e.Key); err != nil {
			return err
		}
		var err error
		if e.Kind == db.EntryDelete {
			err = t.Delete(e.Key)
		} else {
			err = t.Put(e.Key, e.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp gets a key, which may be absent.
func (w *worker) lookUp(from reader, versions []uint64) error {
	key := w.rnd.IntN(len(versions))
	n, name := versions[key], keyOf(w.worker, key)
	switch got, err := from.Get(name); {
	case errors.Is(err, db.ErrNotFound) && n != 0:
		return fmt.Errorf("key %q is not found; batch %d put it", name, n)
	case errors.Is(err, db.ErrNotFound):
		return nil
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("key %q is found; it has no value", name)
	case !bytes.Equal(got, valueOf(w.worker, key, n)):
		return fmt.Errorf("key %q does not hold what batch %d put", name, n)
	}
	return nil
}

// scan reads a few neighbouring keys, in one of both directions.
func (w *worker) scan(from reader, versions []uint64) error {
	low, high := w.someKeys(50)
	it, err := from.NewIterator(&db.IterOptions{LowerBound: keyOf(w.worker, low), UpperBound: keyOf(w.worker, high)})
	if err != nil {
		return err
	}
	defer it.Close()
	move, ok := it.Next, it.First()
	if w.rnd.IntN(2) == 0 {
		move, ok = it.Prev, it.Last()
	}
	got := make([]uint64, high-low)
	for ; ok; ok = move() {
		_, key, err := parseKey(it.Key())
		if err != nil {
			return err
		}
		if got[key-low], err = numberOf(w.worker, key, it.Value()); err != nil {
			return err
		}
	}
	if want := versions[low:high]; it.Err() == nil && !slices.Equal(got, want) {
		return fmt.Errorf("the keys from %q on are of the batches %d, not %d", keyOf(w.worker, low), got, want)
	}
	return it.Err()
}

// someKeys returns a range of at most count of its keys, and of one at least.
func (w *worker) someKeys(count int) (from, to int) {
	from = w.rnd.IntN(len(w.versions))
	return from, min(from+count+1, len(w.versions))
}

// exchangeSnapshot reads the snapshot held and takes a new one.
func (w *worker) exchangeSnapshot() error {
	if err := w.dropSnapshot(); err != nil {
		return err
	}
	w.snapshot, w.then = w.d.NewSnapshot(), append(w.then[:0], w.versions...)
	return nil
}

// dropSnapshot holds the snapshot to what the worker knew when it was taken.
func (w *worker) dropSnapshot() error {
	if w.snapshot == nil {
		return nil
	}
	defer func() { w.snapshot = nil }()
	for range 10 {
		if err := errors.Join(w.lookUp(w.snapshot, w.then), w.scan(w.snapshot, w.then)); err != nil {
			w.snapshot.Close()
			return fmt.Errorf("in a snapshot: %w", err)
		}
	}
	return w.snapshot.Close()
}
