package crashtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/expiry"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// crashChanges is a workload of one writer, so that the order of the commits is known although the logs do not have
// all of them: loads, bulk transactions, ingests and deletions of ranges come between its batches.
type crashChanges struct {
	crashWorkload
	t      testing.TB
	r      *recorder.FS
	rnd    *rand.Rand
	d      *db.DB
	order  []*oracle.Batch
	ranges int          // deleted ones
	log    bytes.Buffer // of the store, which says how many tables a deleted range removed at once or left for later
}

// record makes at least total commits, with the changes in any order, and returns the trace and its judge.
func (w *crashChanges) record(total, opens int, changes ...func(*crashChanges)) (*recorder.Trace, *crashJudge) {
	w.r, w.rnd = recorder.New(recorder.Image{}), rand.New(rand.NewPCG(w.seed, 9))
	for range opens {
		o := crashOptions(w.r, w.seed)
		o.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		w.d = storetest.OpenDir(w.t, "db", o)
		for end := len(w.order) + total/opens; len(w.order) < end; {
			w.write(w.rnd.IntN(15))
			changes[w.rnd.IntN(len(changes))](w)
		}
		m := w.d.Metrics()
		w.metrics.Loads.Count += m.Loads.Count
		w.metrics.Ingests.Linked += m.Ingests.Linked
		w.metrics.Ingests.Rewritten += m.Ingests.Rewritten
		require.NoError(w.t, w.d.Close())
	}
	return w.r.Trace(), &crashJudge{seed: w.seed, history: oracle.New(w.order)}
}

// next returns a batch that may be the next commit.
func (w *crashChanges) next() *oracle.Batch { return w.batch(w.rnd, 0, len(w.order)+1) }

// write commits n batches.
func (w *crashChanges) write(n int) {
	for range n {
		w.apply(w.next())
	}
}

func (w *crashChanges) apply(b *oracle.Batch) {
	w.order = append(w.order, b)
	require.NoError(w.t, w.crashWorkload.apply(w.r, w.d, b))
}

// commit makes a change that is durable when it returns.
func (w *crashChanges) commit(b *oracle.Batch, change func() error) {
	w.order = append(w.order, b)
	b.Sync, b.Buffered, b.Issued = true, false, w.r.Len()
	require.NoError(w.t, change())
	b.Acked = w.r.Len()
}

// loading is a load or a bulk transaction.
type loading interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	Commit() error
	Close() error
}

// load begins a load or a bulk transaction, writes some batches meanwhile, and commits or closes it.
func (w *crashChanges) load() {
	batches := w.rnd.IntN(15)
	b := &oracle.Batch{Number: len(w.order) + batches + 1, Acked: oracle.Never} // the number that it will have
	for _, key := range w.rnd.Perm(w.keys)[:1+w.rnd.IntN(75)] {
		op := oracle.Op{Key: fmt.Sprintf("key%04d", key), Delete: w.rnd.IntN(6) == 0}
		if !op.Delete {
			op.Value = fmt.Sprintf("load %d %s", b.Number, strings.Repeat("l", w.rnd.IntN(200)))
		}
		b.Ops = append(b.Ops, op)
	}
	entries := b.All()
	var l loading
	if w.rnd.IntN(2) == 0 {
		l = storetest.NewLoader(w.t, w.d)
		slices.SortFunc(entries, func(a, b oracle.Op) int { return cmp.Compare(a.Key, b.Key) })
	} else {
		var err error
		l, err = w.d.NewBulkTransaction()
		require.NoError(w.t, err)
		for _, op := range entries {
			require.NoError(w.t, l.Put([]byte(op.Key), []byte("replaced by the same transaction"+strings.Repeat("r", 100))))
		}
	}
	half := w.rnd.IntN(len(entries))
	for i, op := range entries {
		if i == half {
			w.write(batches)
		}
		if op.Delete {
			require.NoError(w.t, l.Delete([]byte(op.Key)))
		} else {
			require.NoError(w.t, l.Put([]byte(op.Key), []byte(op.Value)))
		}
	}
	if w.rnd.IntN(5) == 0 {
		require.NoError(w.t, l.Close())
		return
	}
	w.commit(b, l.Commit)
}

// ingest ingests what would be a batch as a few tables. One of them overlaps nothing. Sometimes the
// tables overlap each other, and the last one has the entries that count.
func (w *crashChanges) ingest() {
	b := w.next()
	b.Ops = append(b.Ops, oracle.Op{Key: fmt.Sprintf("zz%06d", b.Number), Value: "alone"})
	byKey := map[string]fixture.Entry{}
	above := uint64(0) // tables of another store may have numbers above this one's
	if w.rnd.IntN(2) == 0 {
		above = w.d.Metrics().LastSequence + 1
	}
	for _, op := range b.All() {
		e := fixture.Del(op.Key, above+uint64(w.rnd.IntN(100)))
		if !op.Delete {
			value := []byte(op.Value)
			if under(w.d, []byte(op.Key)) {
				value = expiry.Append(nil, expiry.Never, value)
			}
			e = fixture.Put(op.Key, e.Seq, string(value))
		}
		byKey[op.Key] = e
	}
	entries := slices.SortedFunc(maps.Values(byKey), func(a, b fixture.Entry) int { return cmp.Compare(a.Key, b.Key) })
	last := len(entries) - 1
	cut := w.rnd.IntN(last)
	parts := [][]fixture.Entry{entries[:cut], entries[cut:last], entries[last:]}
	if w.rnd.IntN(3) == 0 {
		old := slices.Clone(entries[:last])
		for i := range old {
			if old[i].Kind == base.KindSet { // it may have an envelope
				old[i].Value += "is overwritten"
			}
		}
		parts = [][]fixture.Entry{old, entries[:last], entries[last:]}
	}
	var paths []string
	for i, part := range parts {
		paths = append(paths, fmt.Sprintf("in/%d-%d", b.Number, i))
		makeTable(w.t, w.r, paths[i], part...)
	}
	w.commit(b, func() error { return ingest(w.d, paths) })
	for _, path := range paths {
		require.NoError(w.t, w.r.Remove(path))
	}
}

// makeTable writes a table, as another machine would, and does not sync it.
func makeTable(t testing.TB, fsys vfs.FS, path string, entries ...fixture.Entry) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(filepath.Dir(path)))
	file, err := fsys.Create(path)
	require.NoError(t, err)
	_, err = file.Write(fixture.Table(t, entries...))
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func ingest(d *db.DB, paths []string) error {
	_, err := d.Ingest(context.Background(), paths, nil)
	return err
}

// deleteRange applies a batch that begins with the deletion of a range. Now and then the range is wide and has all
// keys, and a snapshot is open meanwhile, so that tables stay and are removed later.
func (w *crashChanges) deleteRange() {
	wide, pinned := w.ranges%4 < 2, w.ranges%2 == 0
	w.ranges++
	from := w.rnd.IntN(w.keys)
	to := from + w.rnd.IntN(w.keys-from)
	if wide {
		w.fill()
		from, to = w.rnd.IntN(w.keys/8), w.keys-w.rnd.IntN(w.keys/8)
	}
	b := w.next()
	var batch db.Batch
	batch.DeleteRange(fmt.Appendf(nil, "key%04d", from), fmt.Appendf(nil, "key%04d", to))
	addOps(&batch, b.All())
	var deletes []oracle.Op
	for key := from; key < to; key++ {
		deletes = append(deletes, oracle.Op{Key: fmt.Sprintf("key%04d", key), Delete: true})
	}
	b.Ops = append(deletes, b.Ops...)
	if pinned {
		s := w.d.NewSnapshot()
		defer func() { require.NoError(w.t, s.Close()) }()
	}
	w.commit(b, func() error { return w.d.Apply(&batch, db.Sync) })
}

// fill writes all keys, so that many tables have no others.
func (w *crashChanges) fill() {
	for from := 0; from < w.keys; from += 100 {
		b := &oracle.Batch{Number: len(w.order) + 1, Acked: oracle.Never}
		for key := from; key < from+100; key++ {
			b.Ops = append(b.Ops, oracle.Op{Key: fmt.Sprintf("key%04d", key), Value: fmt.Sprintf("%d %x", b.Number, w.rnd.Uint64())})
		}
		w.apply(b)
	}
	require.NoError(w.t, w.d.Compact(context.Background(), nil, nil))
}

// The power fails at every operation of a run with bulk changes. What was committed is there as a whole, with all
// earlier writes, and of what was not there is nothing; what a crash leaves of it, the next Open removes. The same holds
// if the database is repaired. The bugs: Repair used some of the tables that an interrupted ingest had named, those with
// the highest numbers, and the tombstones of a deletion without the removal of its tables.
func TestCrashAtEveryOperationOfBulkChanges(t *testing.T) {
	for _, c := range []struct {
		name        string
		keys, limit int // of recoveries in a full run
		changes     []func(*crashChanges)
	}{
		{"loads", 150, 2000, []func(*crashChanges){(*crashChanges).load}},
		{"ingests", 150, 600, []func(*crashChanges){(*crashChanges).ingest}},
		{"ranges", 2000, 2000, []func(*crashChanges){(*crashChanges).deleteRange}},
		{"all", 2000, 600, []func(*crashChanges){(*crashChanges).load, (*crashChanges).ingest, (*crashChanges).deleteRange}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cuts.Seeds(t, func(t *testing.T, seed uint64) {
				w := &crashChanges{t: t, crashWorkload: crashWorkload{seed: seed, keys: c.keys}}
				trace, j := w.record(inRun(1000, 300), 2, c.changes...)
				t.Logf("seed %d: %d operations, %d commits, %d loads, ingests %+v, %d deleted ranges",
					seed, len(trace.Ops), len(w.order), w.metrics.Loads.Count, w.metrics.Ingests, w.ranges)
				switch c.name {
				case "loads":
					require.Positive(t, w.metrics.Loads.Count)
				case "ingests":
					require.Positive(t, w.metrics.Ingests.Linked)
					require.Positive(t, w.metrics.Ingests.Rewritten)
				case "ranges":
					require.Regexp(t, `"deleted a range" tables=[1-9]`, w.log.String(), "tables are removed at once")
					require.Regexp(t, `"deleted a range".* kept=[1-9]`, w.log.String(), "tables are left for later")
				}
				j.judgeAll(t, "crash of "+c.name, trace, cutsToTry(c.limit, 90), func(s recorder.State, cut int, m recorder.Model) error {
					if err := j.judge(s, cut, m); err != nil {
						return err
					}
					return j.judgeRepair(s, cut, m)
				})
			})
		})
	}
}

// judgeRepair repairs the database of a state instead of opening it.
func (j *crashJudge) judgeRepair(s recorder.State, cut int, model recorder.Model) error {
	mem := s.Mem()
	report, err := db.RepairWithReport("db", crashOptions(mem, j.seed))
	if err != nil {
		return nil // the directory has nothing yet
	}
	if err := j.judgeDisk(mem, cut, model.KeepsAll()); err != nil && !report.MayResurrect {
		return fmt.Errorf("after a repair: %w\n%s", err, report)
	}
	return nil
}
