package db

import (
	stderrors "errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/crashtest/order"
	"github.com/sievedb/sievedb/internal/crashtest/pagecache"
	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/stretchr/testify/require"
)

// faultModel knows what each pair of keys may hold: the value last acknowledged,
// and those of later writes that failed, which may be there or not.
type faultModel struct {
	maybe map[int][]string // by pair; the first is certain, "" stands for none
}

func newFaultModel() *faultModel { return &faultModel{maybe: map[int][]string{}} }

// acked notes a write that succeeded, failed one that did not.
func (m *faultModel) acked(pair int, value string) { m.maybe[pair] = []string{value} }

func (m *faultModel) failed(pair int, value string) {
	m.maybe[pair] = append(m.certain(pair), value)
}

func (m *faultModel) certain(pair int) []string {
	if m.maybe[pair] == nil {
		return []string{""}
	}
	return m.maybe[pair]
}

// check compares a pair as it was read.
func (m *faultModel) check(pair int, a, b string) error {
	if a != b {
		return fmt.Errorf("half a batch is there: pair %d is %q and %q", pair, a, b)
	}
	if !slices.Contains(m.certain(pair), a) {
		return fmt.Errorf("pair %d is %q, want one of %q", pair, a, m.certain(pair))
	}
	return nil
}

func pairKey(pair int, half string) []byte { return fmt.Appendf(nil, "pair%03d%s", pair, half) }

const faultPairs = 40

// faultRun is one run of a small workload over a file system that fails.
type faultRun struct {
	model *faultModel
	rnd   *rand.Rand
	// readsMustWork says that no read may fail: the fault is one of writing.
	readsMustWork bool
	failures      int // calls that returned an error
}

// write puts both keys of a random pair in one batch.
func (r *faultRun) write(d *DB, sync bool) error {
	pair, value := r.rnd.IntN(faultPairs), fmt.Sprintf("%d-%s", r.rnd.Uint32(), strings.Repeat("v", r.rnd.IntN(150)))
	var b Batch
	b.Put(pairKey(pair, "a"), []byte(value))
	b.Put(pairKey(pair, "b"), []byte(value))
	err := d.Apply(&b, &WriteOptions{NoSync: !sync})
	if err == nil {
		r.model.acked(pair, value)
	} else {
		r.model.failed(pair, value)
		r.failures++
	}
	return err
}

// readAll compares what the store answers with the model. Errors are an answer,
// unless reads must work.
func (r *faultRun) readAll(d *DB) error {
	s := d.NewSnapshot()
	defer s.Close()
	found := map[string]string{}
	it, err := s.NewIterator(nil)
	if err == nil {
		for ok := it.First(); ok; ok = it.Next() {
			found[string(it.Key())] = string(it.Value())
		}
		err = it.Err()
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		r.failures++
		if r.readsMustWork {
			return fmt.Errorf("an iterator failed: %w", err)
		}
		return nil
	}
	for pair := range faultPairs {
		a, b := pairKey(pair, "a"), pairKey(pair, "b")
		if err := r.model.check(pair, found[string(a)], found[string(b)]); err != nil {
			return fmt.Errorf("iterator: %w", err)
		}
		got, err := s.Get(a)
		switch {
		case err != nil && err != ErrNotFound:
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

// workload opens, writes, reads, flushes, compacts, and closes; after a half it
// closes and opens once more. It goes on after errors, as a user may. The error
// is a wrong answer.
func (r *faultRun) workload(fsys FS) error {
	for range 2 {
		o := crashOptions(fsys, 0)
		d, err := Open("db", o)
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

func (r *faultRun) use(d *DB) error {
	for i := range 70 {
		_ = r.write(d, i%3 == 0)
		if i%20 == 19 {
			if err := r.readAll(d); err != nil {
				return err
			}
		}
	}
	if d.Flush() != nil {
		r.failures++
	}
	for i := range 10 { // what is left in the log the next opening finds
		_ = r.write(d, i%2 == 0)
	}
	return r.readAll(d)
}

// faultKind is an error and the operations that it befalls.
type faultKind struct {
	name  string
	fault func(op vfs.Op) *vfs.Fault
	// space: only what takes space on the disk fails, and reads must work.
	space bool
}

var faultKinds = []faultKind{
	{name: "EIO", fault: func(vfs.Op) *vfs.Fault { return &vfs.Fault{Err: syscall.EIO} }},
	{name: "ENOSPC", space: true, fault: noSpaceFault},
	{name: "short", fault: func(op vfs.Op) *vfs.Fault { return &vfs.Fault{Err: syscall.EIO, Short: (op.Length + 1) / 2} }},
}

func noSpaceFault(op vfs.Op) *vfs.Fault {
	switch op.Kind {
	case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpMkdirAll, vfs.OpLink, vfs.OpRename, vfs.OpLock:
		return &vfs.Fault{Err: syscall.ENOSPC, Short: op.Length / 2}
	}
	return nil
}

// faultCase is one failure of one run.
type faultCase struct {
	kind   faultKind
	sticky bool
	at     uint64
	seed   uint64
	// wrap, if not nil, comes between the store and the failures.
	wrap func(FS) FS
}

func (c faultCase) String() string {
	how := "once"
	if c.sticky {
		how = "from then on"
	}
	return fmt.Sprintf("%s at operation %d, %s, seed %d", c.kind.name, c.at, how, c.seed)
}

// run runs the workload with the failure, then opens what is left without.
func (c faultCase) run() error {
	mem := vfs.NewMem()
	counting := vfs.NewCounting(mem)
	var hit atomic.Bool
	var failedOp atomic.Value
	faulty := vfs.NewFaulty(counting, func(op vfs.Op) *vfs.Fault {
		if op.Index < c.at || op.Index > c.at && !c.sticky {
			return nil
		}
		f := c.kind.fault(op)
		if f != nil && hit.CompareAndSwap(false, true) {
			failedOp.Store(fmt.Sprintf("%v %s", op.Kind, op.Name))
		}
		return f
	})
	var fsys FS = faulty
	if c.wrap != nil {
		fsys = c.wrap(fsys)
	}
	checker := order.New(fsys)
	r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(c.seed, 1)), readsMustWork: c.kind.space}
	err := r.workload(checker)
	if err == nil {
		err = c.after(mem, counting, checker, r)
	}
	if err != nil {
		return fmt.Errorf("%v (%v): %w", c, failedOp.Load(), err)
	}
	return nil
}

// after checks what is left behind Close, and what opens then, twice.
func (c faultCase) after(mem *vfs.Mem, counting *vfs.Counting, checker *order.FS, r *faultRun) error {
	if v := checker.Violations(); len(v) > 0 {
		return fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	if n := counting.Snapshot().Total.OpenFiles; n != 0 {
		return fmt.Errorf("%d files are open behind Close", n)
	}
	var before map[int]string
	for range 2 {
		d, err := Open("db", crashOptions(mem, 0))
		if err != nil {
			return fmt.Errorf("open without the fault: %w", err)
		}
		r.readsMustWork = true
		err = r.readAll(d)
		now := map[int]string{}
		for pair := range faultPairs {
			v, _ := d.Get(pairKey(pair, "a"))
			now[pair] = string(v)
		}
		if err == nil && before != nil {
			for pair := range faultPairs {
				if before[pair] != now[pair] {
					err = fmt.Errorf("pair %d was %q at the first open, is %q at the second", pair, before[pair], now[pair])
				}
			}
		}
		before = now
		rest(d)
		if err == nil {
			err = strayFilesAtRest(d, mem)
		}
		if cerr := d.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("opened without the fault: %w", err)
		}
	}
	return nil
}

// strayFilesAtRest waits for the removal of files, which comes behind the work
// that made them needless.
func strayFilesAtRest(d *DB, fsys FS) (err error) {
	for range 100 {
		if err = strayFiles(d, fsys); err == nil || !d.pause(time.Millisecond) {
			return err
		}
	}
	return err
}

// strayFiles names files that the store at rest does not need.
func strayFiles(d *DB, fsys FS) error {
	d.obsolete.remove(d)
	live := map[uint64]bool{}
	d.set.Current().Files(func(_ int, f *manifest.FileMeta) { live[f.Num] = true })
	names, err := fsys.List("db")
	if err != nil {
		return err
	}
	logs, manifests := 0, 0
	for _, name := range names {
		kind, num, ok := base.ParseFileName(filepath.Base(name))
		if !ok {
			continue
		}
		switch kind {
		case base.FileTable:
			if !live[num] {
				return fmt.Errorf("%s is left and not needed", name)
			}
		case base.FileLog:
			logs++
		case base.FileManifest:
			manifests++
		case base.FileTemp:
			return fmt.Errorf("%s is left", name)
		}
	}
	if logs != 1 || manifests != 1 {
		return fmt.Errorf("one log and one MANIFEST should be there at rest, but there are %q", names)
	}
	return nil
}

// Each operation of a small run fails, once or from then on, in each of three
// ways. Every answer is right or an error, and nothing acknowledged is lost.
func TestAnErrorAtEveryOperation(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		counter := vfs.NewFaulty(vfs.NewMem(), nil)
		r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(seed, 1)), readsMustWork: true}
		require.NoError(t, r.workload(counter))
		require.Zero(t, r.failures)
		total, step := counter.Ops(), uint64(1)
		require.Greater(t, total, uint64(500))
		if raceEnabled {
			step = 23
		}
		before := runtime.NumGoroutine()
		var cases []faultCase
		for _, kind := range faultKinds {
			for _, sticky := range []bool{false, true} {
				for at := uint64(0); at < total; at += step {
					cases = append(cases, faultCase{kind: kind, sticky: sticky, at: at, seed: seed})
				}
			}
		}
		require.NoError(t, runFaultCases(len(cases), 10, func(i int) error { return cases[i].run() }))
		t.Logf("seed %d: %d operations, %d runs", seed, total, len(cases))
		eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
}

// runFaultCases runs cases in parallel, more than there are processors: many of
// them wait out a pause after a failure. It ends with so many errors and returns
// them.
func runFaultCases(n, maxErrors int, run func(i int) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				mu.Lock()
				enough := len(errs) >= maxErrors
				mu.Unlock()
				if i >= n || enough {
					return
				}
				if err := run(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return stderrors.Join(errs...)
}

// Each sync of a run fails, and the pages behind it are as three kinds of file
// system leave them. Then the machine crashes, or the store is opened again
// without a crash, or it goes on.
func TestAFailureOfEverySync(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		count := pagecache.New(pagecache.Clean, func(int, vfs.Op) error { return nil })
		r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(seed, 1))}
		require.NoError(t, r.workload(count))
		total, step := count.Syncs(), 1
		require.Greater(t, total, 60)
		if raceEnabled {
			step = 5
		}
		var cases []syncCase
		for model := pagecache.Clean; model < pagecache.NumModels; model++ {
			for then := range numThens {
				for at := 0; at < total; at += step {
					cases = append(cases, syncCase{model: model, at: at, then: then, seed: seed})
				}
			}
		}
		require.NoError(t, runFaultCases(len(cases), 10, func(i int) error { return cases[i].run() }))
		t.Logf("seed %d: %d syncs, %d runs", seed, total, len(cases))
	})
}

// What happens after a sync has failed.
const (
	thenCrash = iota
	thenReopen
	thenGoOn
	numThens
)

type syncCase struct {
	model pagecache.Model
	at    int
	then  int
	seed  uint64
	wrap  func(FS) FS // as in faultCase
}

func (c syncCase) run() error {
	var failed atomic.Pointer[vfs.Op]
	disk := pagecache.New(c.model, func(n int, op vfs.Op) error {
		if n != c.at {
			return nil
		}
		failed.Store(&op)
		return syscall.EIO
	})
	err := c.use(disk, &failed)
	if err != nil {
		op := "none"
		if f := failed.Load(); f != nil {
			op = fmt.Sprintf("%v of %s", f.Kind, f.Name)
		}
		return fmt.Errorf("seed %d, pages %v, failed sync %d (%s), then %s: %w", c.seed, c.model, c.at, op,
			[]string{"crash", "reopen", "go on"}[c.then], err)
	}
	return nil
}

// use writes, all synced, until the failure shows or all is written. Behind the
// failure of a log's or the MANIFEST's sync no write may be accepted.
func (c syncCase) use(disk *pagecache.FS, failed *atomic.Pointer[vfs.Op]) error {
	var fsys FS = disk
	if c.wrap != nil {
		fsys = c.wrap(fsys)
	}
	checker := order.New(fsys)
	r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(c.seed, 1))}
	d, err := Open("db", crashOptions(checker, 0))
	if err == nil {
		for range 120 {
			before := failed.Load()
			final := before != nil && finalFile(before.Name)
			if final && !endsSoon(d) {
				_ = d.Close()
				return fmt.Errorf("the failure does not end the writes")
			}
			if err := r.write(d, true); final && err == nil {
				_ = d.Close()
				return fmt.Errorf("a write was accepted behind the failure")
			}
			if failed.Load() != nil && c.then != thenGoOn {
				break
			}
		}
		if c.then == thenGoOn {
			if err := r.readAll(d); err != nil {
				_ = d.Close()
				return err
			}
		}
	}
	if v := checker.Violations(); len(v) > 0 {
		return fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	crashed := disk.Crash()
	if d != nil {
		_ = d.Close()
	}
	if c.then != thenReopen {
		return c.reopen(crashed, crashed.Crash, r)
	}
	return c.reopen(disk, disk.Crash, r)
}

// endsSoon waits until the store takes no more writes: a MANIFEST's failure shows
// in the background first.
func endsSoon(d *DB) bool {
	for range 1000 {
		if d.writeErr() != nil {
			return true
		}
		d.pause(time.Millisecond)
	}
	return false
}

// finalFile reports whether a failed sync of the file ends the writes.
func finalFile(name string) bool {
	kind, _, ok := base.ParseFileName(filepath.Base(name))
	return ok && (kind == base.FileLog || kind == base.FileManifest)
}

// reopen opens what is left, cuts the power, and opens again: what the first
// opening showed, the second must show.
func (c syncCase) reopen(fsys FS, crash func() *vfs.Mem, r *faultRun) error {
	r.readsMustWork = true
	var shown map[int]string
	for range 2 {
		d, err := Open("db", crashOptions(fsys, 0))
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		err = r.readAll(d)
		now := map[int]string{}
		for pair := range faultPairs {
			v, _ := d.Get(pairKey(pair, "a"))
			now[pair] = string(v)
			if err == nil && shown != nil && shown[pair] != now[pair] {
				err = fmt.Errorf("pair %d was %q at the first open, is %q after a crash", pair, shown[pair], now[pair])
			}
		}
		shown, fsys = now, crash()
		if cerr := d.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deafFS passes operations on and reports success whatever they return.
type deafFS struct {
	vfs.FS
	deaf func(kind vfs.OpKind, name string) bool
}

func (d deafFS) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return deafFile{f, d, name}, err
}

type deafFile struct {
	vfs.File
	d    deafFS
	name string
}

func (f deafFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.d.deaf(vfs.OpWrite, f.name) {
		return len(p), nil
	}
	return n, err
}

func (f deafFile) Sync() error {
	err := f.File.Sync()
	if f.d.deaf(vfs.OpSync, f.name) {
		return nil
	}
	return err
}

// requireFound runs the n cases of one seed after another until one of them fails.
// Which case meets the planted fault depends on what the background does just
// then, so that the cases of one seed may all miss it.
func requireFound(t *testing.T, n int, run func(seed uint64, i int) error) {
	t.Helper()
	for seed := uint64(5); seed < 25; seed++ {
		if err := runFaultCases(n, 1, func(i int) error { return run(seed, i) }); err != nil {
			t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
			return
		}
	}
	require.Fail(t, "the planted fault was not found")
}

// The machines of the two tests above must find a store that does not listen to
// errors: each of these ignores those of one kind of file.
func TestErrorsThatAreIgnoredAreFound(t *testing.T) {
	hears := func(kind vfs.OpKind, ext string) func(vfs.OpKind, string) bool {
		return func(k vfs.OpKind, name string) bool { return k == kind && strings.Contains(filepath.Base(name), ext) }
	}
	for name, deaf := range map[string]func(vfs.OpKind, string) bool{
		"appends to logs":       hears(vfs.OpWrite, ".log"),
		"appends to tables":     hears(vfs.OpWrite, ".ldb"),
		"appends to a MANIFEST": hears(vfs.OpWrite, "MANIFEST"),
	} {
		t.Run(name, func(t *testing.T) {
			wrap := func(fsys FS) FS { return deafFS{fsys, deaf} }
			requireFound(t, 520, func(seed uint64, i int) error { // from the end: the latest files are still there
				return faultCase{kind: faultKinds[2], at: uint64(519 - i), seed: seed, wrap: wrap}.run()
			})
		})
	}
	for name, deaf := range map[string]func(vfs.OpKind, string) bool{
		"syncs of logs":       hears(vfs.OpSync, ".log"),
		"syncs of tables":     hears(vfs.OpSync, ".ldb"),
		"syncs of a MANIFEST": hears(vfs.OpSync, "MANIFEST"),
	} {
		t.Run(name, func(t *testing.T) {
			wrap := func(fsys FS) FS { return deafFS{fsys, deaf} }
			requireFound(t, 250, func(seed uint64, i int) error {
				return syncCase{model: pagecache.Clean, at: i, then: thenGoOn, seed: seed, wrap: wrap}.run()
			})
		})
	}
}
