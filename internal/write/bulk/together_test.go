package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/report"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// groupWorkload writes groups of keys in many ways. All keys of a group always have the same value.
type groupWorkload struct {
	d    *db.DB
	fs   vfs.FS
	made atomic.Uint64 // values

	linked, rewritten, cancelled atomic.Int64
}

const (
	groups    = 3
	groupKeys = 12
)

func groupKey(g, i int) []byte { return fmt.Appendf(nil, "g%d/%02d", g, i) }

// table writes a table of some keys of a group.
func (w *groupWorkload) table(path string, g, from, to int, value []byte, seq uint64) error {
	file, err := w.fs.Create(path)
	if err != nil {
		return err
	}
	table := sstable.NewWriter(file, sstable.WriterOptions{})
	for i := from; i < to && err == nil; i++ {
		err = table.Add(sstable.Key{User: groupKey(g, i), Seq: seq}.Append(nil), value)
	}
	if err == nil {
		_, err = table.Finish()
	}
	return errors.Join(err, file.Close())
}

// value is so long that the tables of a load have not more than eight.
func (w *groupWorkload) value() []byte { return fmt.Appendf(nil, "value %01000d", w.made.Add(1)) }

// ingest ingests a group as one to four tables.
func (w *groupWorkload) ingest(ctx context.Context, rnd *rand.Rand) error {
	g, value, parts := rnd.IntN(groups), w.value(), 1+rnd.IntN(4)
	last := w.d.Metrics().LastSequence
	seq := []uint64{0, last / 2, last + 1, last + 100}[rnd.IntN(4)]
	var paths []string
	for p := range parts {
		path := fmt.Sprintf("in/%d", w.made.Add(1))
		if err := w.table(path, g, p*groupKeys/parts, (p+1)*groupKeys/parts, value, seq); err != nil {
			return err
		}
		paths = append(paths, path)
	}
	info, err := w.d.Ingest(ctx, paths, &db.IngestOptions{Copy: rnd.IntN(5) == 0})
	w.linked.Add(int64(info.Linked))
	w.rewritten.Add(int64(info.Rewritten))
	return err
}

func (w *groupWorkload) ingestHastily(rnd *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(int(20*time.Millisecond))))
	defer cancel()
	err := w.ingest(ctx, rnd)
	if errors.Is(err, context.DeadlineExceeded) {
		w.cancelled.Add(1)
		return nil
	}
	return err
}

func (w *groupWorkload) load(rnd *rand.Rand) error {
	l, err := w.d.NewLoader()
	if err != nil {
		return err
	}
	g, value := rnd.IntN(groups), w.value()
	for i := 0; i < groupKeys && err == nil; i++ {
		err = l.Put(groupKey(g, i), value)
	}
	if err == nil {
		err = l.Commit()
	}
	return errors.Join(err, l.Close())
}

func (w *groupWorkload) apply(rnd *rand.Rand) error {
	var b db.Batch
	g, value := rnd.IntN(groups), w.value()
	for i := range groupKeys {
		b.Put(groupKey(g, i), value)
	}
	return w.d.Apply(&b, db.NoSync)
}

func (w *groupWorkload) deleteRange(rnd *rand.Rand) error {
	g := rnd.IntN(groups)
	return w.d.DeleteRange(context.Background(), groupKey(g, 0), groupKey(g+1, 0), db.NoSync)
}

func (w *groupWorkload) transact(rnd *rand.Rand) error {
	tx := w.d.NewTransaction(nil)
	defer tx.Close()
	err := wholeGroups(tx)
	g, value := rnd.IntN(groups), w.value()
	for i := 0; i < groupKeys && err == nil; i++ {
		err = tx.Put(groupKey(g, i), value)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err == db.ErrConflict {
		return nil
	}
	return err
}

func (w *groupWorkload) compact(rnd *rand.Rand) error {
	if rnd.IntN(2) == 0 {
		return w.d.Flush()
	}
	return w.d.Compact(context.Background(), nil, nil)
}

func (w *groupWorkload) checkpoint(*rand.Rand) error {
	to := fmt.Sprintf("checkpoint %d", w.made.Add(1))
	if _, err := w.d.Checkpoint(context.Background(), to, nil); err != nil {
		return err
	}
	c, err := db.Open(to, storetest.Options(w.fs))
	if err != nil {
		return err
	}
	return errors.Join(wholeGroups(c), c.Close())
}

// wholeGroups returns an error if the keys of a group have different values, by lookups or by an iterator.
func wholeGroups(r interface {
	Get(key []byte) ([]byte, error)
	NewIterator(*db.IterOptions) (*db.Iterator, error)
},
) error {
	var values [groups][]byte
	for g := range groups {
		for i := range groupKeys {
			v, err := r.Get(groupKey(g, i))
			if err != nil && err != db.ErrNotFound {
				return err
			}
			if i > 0 && string(v) != string(values[g]) {
				return fmt.Errorf("group %d: key %d has %q, those before it %q", g, i, v, values[g])
			}
			values[g] = v
		}
	}
	it, err := r.NewIterator(nil)
	if err != nil {
		return err
	}
	for g := range groups {
		for i := 0; i < groupKeys && values[g] != nil; i++ {
			if !it.Next() || string(it.Key()) != string(groupKey(g, i)) || string(it.Value()) != string(values[g]) {
				return fmt.Errorf("group %d: the iterator is at %q with %q, %v; want key %d with %q", g, it.Key(), it.Value(), it.Err(), i, values[g])
			}
		}
	}
	if it.Next() {
		return fmt.Errorf("%q is in the iterator, but not found", it.Key())
	}
	return it.Close()
}

// Ingests, some of them cancelled, loads, batches, deleted ranges, transactions, compactions and
// checkpoints happen at the same time. Snapshots, transactions, checkpoints and a follower see whole groups.
func TestGroupsStayWholeWhateverWritesThem(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("in"))
	o := storetest.Options(mem)
	o.Tables.Compression, o.Compaction.MaxConcurrent = db.NoCompression, 3
	d := storetest.Open(t, o)
	follower := result.Of(db.OpenFollower("db", storetest.Options(mem)))(t)
	defer follower.Close()
	w := &groupWorkload{d: d, fs: mem}
	var writers, readers sync.WaitGroup
	ended := make(chan struct{})
	for i, job := range []struct {
		rounds int
		do     func(*rand.Rand) error
	}{
		{20, func(rnd *rand.Rand) error { return w.ingest(context.Background(), rnd) }},
		{20, func(rnd *rand.Rand) error { return w.ingest(context.Background(), rnd) }},
		{20, w.ingestHastily}, {15, w.load}, {15, w.load}, {60, w.apply}, {40, w.deleteRange}, {40, w.transact}, {15, w.compact}, {5, w.checkpoint},
	} {
		rnd := rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))
		writers.Go(func() {
			rounds := job.rounds
			if testing.Short() {
				rounds /= 4
			}
			for round := range rounds {
				if err := job.do(rnd); err != nil {
					t.Errorf("writer %d, round %d: %v", i, round, err)
				}
			}
		})
	}
	for i, from := range []*db.DB{d, d, follower} {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				s := from.NewSnapshot()
				if from == follower {
					if err := follower.Refresh(context.Background()); err != nil {
						t.Error(err)
					}
				}
				if err := errors.Join(wholeGroups(s), wholeGroups(s), s.Close()); err != nil {
					t.Errorf("reader %d: %v", i, err)
				}
			}
		})
	}
	writers.Wait()
	close(ended)
	readers.Wait()
	t.Logf("%d tables linked, %d rewritten, %d ingests cancelled", w.linked.Load(), w.rewritten.Load(), w.cancelled.Load())
	_, err := follower.Ingest(context.Background(), []string{"in/none"}, nil)
	require.Equal(t, db.ErrReadOnly, err)
	loads := d.Metrics().Loads
	require.Greater(t, loads.Tables, loads.Count)
	require.NoError(t, follower.Refresh(context.Background()))
	require.NoError(t, wholeGroups(follower))
	require.NoError(t, wholeGroups(d))
	report := result.Of(d.Check(context.Background()))(t)
	require.Empty(t, report.Faults)
	require.Empty(t, fixture.Names(t, mem, base.FileTemp))
}

// A load that overlaps tables of level 0 everywhere does not go there, where each of its tables would
// count towards the trigger that stops writers.
func TestALargeLoadLeavesLevel0Alone(t *testing.T) {
	const n = 3000
	o := storetest.Options(vfs.NewMem())
	o.Tables.Compression = db.NoCompression
	var info report.LoadInfo
	o.EventListener = &db.EventListener{LoadEnd: func(i report.LoadInfo) { info = i }}
	d := storetest.Open(t, o)
	require.NoError(t, d.Put(fixture.Key(0), []byte("old"), db.NoSync))
	require.NoError(t, d.Put(fixture.Key(n), []byte("old"), db.NoSync))
	require.NoError(t, d.Flush())
	l := storetest.NewLoader(t, d)
	for i := range n {
		require.NoError(t, l.Put(fixture.Key(i), fixture.Value(i)))
	}
	require.NoError(t, d.Put(fixture.Key(0), []byte("during"), db.NoSync))
	require.NoError(t, d.Put(fixture.Key(n), []byte("during"), db.NoSync))
	require.NoError(t, l.Commit())
	require.Zero(t, info.Tables[0])
	require.Greater(t, d.Metrics().Loads.Tables, uint64(20))
	for i := range n {
		storetest.RequireValue(t, d, fixture.Key(i), fixture.Value(i))
	}
	storetest.RequireValue(t, d, fixture.Key(n), []byte("during"))
}

func TestMain(m *testing.M) { os.Exit(fixture.Run(m)) }

// BenchmarkDeleteRangeWithAnOpenSnapshot deletes a range of 1,000 keys, which has tables of its own, while a snapshot
// is open.
func BenchmarkDeleteRangeWithAnOpenSnapshot(b *testing.B) {
	d := result.Of(db.Open("db", &db.Options{FS: vfs.NewMem()}))(b)
	defer d.Close()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		l := result.Of(d.NewLoader())(b)
		for n := range 1_000 {
			require.NoError(b, l.Put(fmt.Appendf(nil, "%08d/%04d", i, n), []byte("value")))
		}
		require.NoError(b, l.Commit())
		s := d.NewSnapshot()
		b.StartTimer()
		require.NoError(b, d.DeleteRange(b.Context(), fmt.Appendf(nil, "%08d/", i), fmt.Appendf(nil, "%08d0", i), nil))
		b.StopTimer()
		require.NoError(b, s.Close())
		b.StartTimer()
	}
}
