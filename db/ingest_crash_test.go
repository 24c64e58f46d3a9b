package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// ingestWorkload writes batches and ingests tables one after the other.
type ingestWorkload struct {
	crashWorkload
	order             []*oracle.Batch
	linked, rewritten int
}

func (w *ingestWorkload) run(t testing.TB, r *recorder.FS, total, opens int) {
	w.batches = map[[2]int]*oracle.Batch{}
	rnd := rand.New(rand.NewPCG(w.seed, 11))
	for range opens {
		d := openDir(t, "db", crashOptions(r, w.seed))
		for end := len(w.order) + total/opens; len(w.order) < end; {
			for range rnd.IntN(30) {
				b := w.batch(rnd, 0, len(w.order)+1)
				w.order = append(w.order, b)
				require.NoError(t, w.apply(r, d, b))
			}
			w.ingest(t, r, d, rnd)
		}
		require.NoError(t, d.Close())
	}
}

// ingest ingests what would be a batch as a few tables. One of them overlaps nothing. Sometimes the
// tables overlap each other, and the last one has the entries that count.
func (w *ingestWorkload) ingest(t testing.TB, r *recorder.FS, d *db.DB, rnd *rand.Rand) {
	b := w.batch(rnd, 0, len(w.order)+1)
	b.Sync, b.Buffered = true, false
	b.Ops = append(b.Ops, oracle.Op{Key: fmt.Sprintf("zz%06d", b.Number), Value: "alone"})
	var entries []madeEntry
	above := uint64(0) // tables of another store may have numbers above this one's
	if rnd.IntN(2) == 0 {
		above = d.Finder().VisibleSeq.Load() + 1
	}
	for _, op := range b.All() {
		value, err := d.Expiry().Seal(nil, []byte(op.Key), []byte(op.Value), 0)
		require.NoError(t, err)
		e := madeEntry{op.Key, above + uint64(rnd.IntN(100)), string(value)}
		if op.Delete {
			e.value = ""
		}
		entries = slices.DeleteFunc(entries, func(o madeEntry) bool { return o.key == e.key })
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b madeEntry) int { return base.Bytewise.Compare([]byte(a.key), []byte(b.key)) })
	last := len(entries) - 1
	cut := rnd.IntN(last)
	parts := [][]madeEntry{entries[:cut], entries[cut:last], entries[last:]}
	if rnd.IntN(3) == 0 {
		old := slices.Clone(entries[:last])
		for i := range old {
			if old[i].value != "" { // it may have an envelope
				old[i].value += "is overwritten"
			}
		}
		parts = [][]madeEntry{old, entries[:last], entries[last:]}
	}
	var paths []string
	for i, part := range parts {
		paths = append(paths, makeTable(t, r, fmt.Sprintf("in/%d-%d", b.Number, i), part))
	}
	w.order = append(w.order, b)
	b.Issued = r.Len()
	info := mustIngest(t, d, paths...)
	b.Acked = r.Len()
	w.linked, w.rewritten = w.linked+info.Linked, w.rewritten+info.Rewritten
	for _, path := range paths {
		require.NoError(t, r.Remove(path))
	}
}

// The power fails at every operation of a run that ingests tables. All tables of a call are there, with
// all earlier writes, or none of them. What a crash leaves of an ingest is removed by the next Open. The
// bug: Repair used some of the tables that an interrupted ingest had named, those with the highest numbers.
func TestCrashAtEveryOperationOfIngests(t *testing.T) {
	total, limit := 600, 600
	if sampled() {
		total, limit = 300, 80
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		start := time.Now()
		w := &ingestWorkload{crashWorkload: crashWorkload{seed: seed, keys: 150}}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 2)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: oracle.New(w.order)}
		t.Logf("seed %d: %d operations, %d batches, %d tables linked, %d rewritten", seed, len(trace.Ops), len(w.order), w.linked, w.rewritten)
		require.Positive(t, w.linked)
		require.Positive(t, w.rewritten)
		_, err := eachState(trace, crashModels(t), seed, limit, func(s recorder.State, cut int, m recorder.Model) error {
			if err := j.judge(s, cut, m); err != nil {
				return err
			}
			if err := noLeftovers(s, seed); err != nil {
				return err
			}
			return j.judgeRepair(s, cut, m)
		})
		requireNoFailure(t, err)
		logRate(t, "crash of ingests", j, start)
	})
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

// noLeftovers opens a store and compares its files with its tables.
func noLeftovers(s recorder.State, seed uint64) error {
	mem := s.Mem()
	d, err := db.Open("db", crashOptions(mem, seed))
	if err != nil {
		return nil // judged elsewhere
	}
	defer d.Close()
	names, err := mem.List("db")
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileTemp {
			return fmt.Errorf("%s is left", name)
		}
	}
	return err
}

// Each operation fails once. After an error nothing is there, unless the MANIFEST failed; without one
// everything is. No temporary file is left, and what was given is unchanged.
func TestAnErrorAtEveryOperationOfAnIngest(t *testing.T) {
	want := map[string]string{}
	for i := range 40 {
		want[string(testKey(i))] = "new"
	}
	// Operation number failAt of the ingest fails.
	ingestOn := func(failAt uint64) (mem *vfs.Mem, ops uint64, failed wrap.OpKind, err error) {
		mem = vfs.NewMem()
		var armed atomic.Bool
		var at atomic.Uint64
		var kind atomic.Uint64
		fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if !armed.Load() || at.Add(1) != failAt {
				return nil
			}
			kind.Store(uint64(op.Kind))
			return &wrap.Fault{Err: wrap.ErrInjected}
		})
		o := testOptions(fsys)
		d := mustOpen(t, o)
		require.NoError(t, d.Put(testKey(15), []byte("old"), db.NoSync))
		var paths []string
		for i := range 4 {
			paths = append(paths, makeTable(t, mem, fmt.Sprint("in/", i), keysFrom(10*i, 10*i+10, 3, "new")))
		}
		armed.Store(true)
		_, err = d.Ingest(background, paths, nil)
		armed.Store(false)
		_ = d.Close()
		for _, path := range paths {
			require.NotEmpty(t, readFile(t, mem, path))
		}
		return mem, at.Load(), wrap.OpKind(kind.Load()), err
	}
	_, ops, _, err := ingestOn(0)
	require.NoError(t, err)
	require.Greater(t, ops, uint64(20))
	for n := uint64(1); n <= ops; n++ {
		mem, _, failed, err := ingestOn(n)
		d := openTest(t, testOptions(mem.Kill()))
		got := map[string]string{}
		it, ierr := d.NewIterator(nil)
		require.NoError(t, ierr)
		for k, v := range it.All() {
			got[string(k)] = string(v)
		}
		require.NoError(t, it.Close())
		if len(got) == 1 {
			require.Error(t, err, "operation %d, %v", n, failed)
			require.Equal(t, map[string]string{string(testKey(15)): "old"}, got, "operation %d, %v", n, failed)
		} else {
			require.Equal(t, want, got, "operation %d, %v: %v", n, failed, err)
		}
		require.Zero(t, filesOf(t, mem, base.FileTemp), "operation %d, %v", n, failed)
		requireNoFaults(t, d)
		require.NoError(t, d.Close())
	}
}
