package crashtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

func pairKey(pair int, half string) []byte { return fmt.Appendf(nil, "pair%03d%s", pair, half) }

const numFaultPairs = 40

// faultRun runs a small workload over a failing file system.
type faultRun struct {
	model *oracle.Possible
	rnd   *rand.Rand
	// readsMustWork says that no read may fail, because only writes do.
	readsMustWork bool
	failures      int // calls that returned an error
	// scale multiplies the writes of the workload; 0 means 1.
	scale int
	// logDirs are the values of Options.LogDir, one for each opening; nil for two without one.
	logDirs []string
}

func newFaultRun(seed uint64, scale int) *faultRun {
	return &faultRun{model: oracle.NewPossible(), rnd: rand.New(rand.NewPCG(seed, 1)), scale: scale}
}

// write puts both keys of a random pair in one batch.
func (r *faultRun) write(d *db.DB, sync bool) error {
	pair, value := r.rnd.IntN(numFaultPairs), fmt.Sprintf("%d-%s", r.rnd.Uint32(), strings.Repeat("v", r.rnd.IntN(150)))
	var b db.Batch
	b.Put(pairKey(pair, "a"), []byte(value))
	if under(d, pairKey(pair, "b")) {
		b.PutTTL(pairKey(pair, "b"), []byte(value), longTTL)
		b.PutTTL(fmt.Appendf(nil, "%s%d", expiringPrefix, pair), []byte(value), time.Millisecond)
	} else {
		b.Put(pairKey(pair, "b"), []byte(value))
	}
	r.model.Begun(pair, value)
	write, wo := d.Apply, &db.WriteOptions{NoSync: !sync}
	if r.rnd.IntN(3) == 0 {
		write = func(b *db.Batch, wo *db.WriteOptions) error { return storetest.ApplyInTransaction(d, b, wo) }
	}
	err := write(&b, wo)
	if err == nil {
		r.model.Acked(pair, value)
	} else {
		r.failures++
	}
	return err
}

// load loads some pairs while another write is made.
func (r *faultRun) load(d *db.DB) {
	l, err := d.NewLoader()
	if err != nil {
		r.failures++
		return
	}
	defer l.Close()
	pairs, values := slices.Sorted(slices.Values(r.rnd.Perm(numFaultPairs)[:10])), map[int]string{}
	for i, pair := range pairs {
		values[pair] = fmt.Sprintf("load-%d-%s", r.rnd.Uint32(), strings.Repeat("v", r.rnd.IntN(900)))
		_ = l.Put(pairKey(pair, "a"), []byte(values[pair]))
		if err := l.Put(pairKey(pair, "b"), []byte(values[pair])); err != nil {
			r.failures++
			return
		}
		if i == 5 {
			_ = r.write(d, false)
		}
	}
	for pair, value := range values {
		r.model.Begun(pair, value)
	}
	if err := l.Commit(); err != nil {
		r.failures++
		return
	}
	for pair, value := range values {
		r.model.Acked(pair, value)
	}
}

// deleteRange deletes a range of pairs and puts one of them, in one batch.
func (r *faultRun) deleteRange(d *db.DB) {
	from := r.rnd.IntN(numFaultPairs)
	to := from + r.rnd.IntN(numFaultPairs-from)
	kept, value := from, fmt.Sprintf("range-%d", r.rnd.Uint32())
	var b db.Batch
	b.DeleteRange(pairKey(from, ""), pairKey(to, ""))
	b.Put(pairKey(kept, "a"), []byte(value))
	b.Put(pairKey(kept, "b"), []byte(value))
	for pair := from; pair < to; pair++ {
		r.model.Begun(pair, "")
	}
	r.model.Begun(kept, value)
	if err := d.Apply(&b, db.Sync); err != nil {
		r.failures++
		return
	}
	for pair := from; pair < to; pair++ {
		r.model.Acked(pair, "")
	}
	r.model.Acked(kept, value)
}

// readAll compares the store's entries with the model. Errors are allowed unless reads must work.
func (r *faultRun) readAll(d *db.DB) error {
	s := d.NewSnapshot()
	defer s.Close()
	found := map[string]string{}
	it, err := s.NewIterator(nil)
	if err == nil {
		for ok := it.First(); ok; ok = it.Next() {
			if strings.HasPrefix(string(it.Key()), expiringPrefix) {
				return fmt.Errorf("%s is shown after its time", it.Key())
			}
			found[string(it.Key())] = string(it.Value())
		}
		err = it.Err()
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		r.failures++
		if r.readsMustWork {
			return fmt.Errorf("an iterator failed: %w", err)
		}
		return nil
	}
	for pair := range numFaultPairs {
		a, b := pairKey(pair, "a"), pairKey(pair, "b")
		if found[string(a)] != found[string(b)] {
			return fmt.Errorf("half a batch was applied: pair %d is %q and %q", pair, found[string(a)], found[string(b)])
		}
		if err := r.model.Check(pair, found[string(a)]); err != nil {
			return fmt.Errorf("iterator: %w", err)
		}
		got, err := s.Get(a)
		switch {
		case err != nil && err != db.ErrNotFound:
			r.failures++
			if r.readsMustWork {
				return fmt.Errorf("a Get failed: %w", err)
			}
		case string(got) != found[string(a)]:
			return fmt.Errorf("Get of %s is %q, the iterator shows %q", a, got, found[string(a)])
		}
	}
	return nil
}

// opensAlike opens the files without failures, twice. The second time it must show what it showed first. next returns
// the files of the next opening; the store is still open.
func (r *faultRun) opensAlike(fsys vfs.FS, next func(d *db.DB) (vfs.FS, error)) error {
	r.readsMustWork = true
	var shown map[int]string
	for range 2 {
		d, err := db.Open("db", crashOptions(fsys, 0))
		if err != nil {
			return fmt.Errorf("open without the fault: %w", err)
		}
		err = r.readAll(d)
		now := map[int]string{}
		for pair := range numFaultPairs {
			v, _ := d.Get(pairKey(pair, "a"))
			now[pair] = string(v)
			if err == nil && shown != nil && shown[pair] != now[pair] {
				err = fmt.Errorf("pair %d was %q at the first open, is %q at the second", pair, shown[pair], now[pair])
			}
		}
		shown = now
		left, nextErr := next(d)
		fsys = left
		if err = errors.Join(err, nextErr, d.Close()); err != nil {
			return fmt.Errorf("opened without the fault: %w", err)
		}
	}
	return nil
}

// workload opens, writes, reads, flushes, compacts and closes the store, twice. It continues after
// errors, as a user may. It returns an error if an answer is wrong.
func (r *faultRun) workload(fsys vfs.FS) error {
	logDirs := r.logDirs
	if logDirs == nil {
		logDirs = []string{"", ""}
	}
	for _, dir := range logDirs {
		o := crashOptions(fsys, 0)
		o.LogDir = dir
		d, err := db.Open("db", o)
		if err != nil {
			r.failures++
			continue
		}
		wrong := r.use(d)
		if err := d.Close(); err != nil {
			r.failures++
		}
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

func (r *faultRun) use(d *db.DB) error {
	for i := range 70 * max(1, r.scale) {
		_ = r.write(d, i%3 == 0)
		if i%20 == 19 {
			if err := r.readAll(d); err != nil {
				return err
			}
		}
		if i%70 == 69 && d.Flush() != nil {
			r.failures++
		}
		if i%70 == 45 {
			r.load(d)
		}
		if i%70 == 60 {
			r.deleteRange(d)
		}
	}
	for i := range 10 { // the next open finds these in the log
		_ = r.write(d, i%2 == 0)
	}
	return r.readAll(d)
}
