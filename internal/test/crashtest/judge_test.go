package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// crashJudge opens the disks that power cuts leave and checks them with the oracle.
type crashJudge struct {
	seed    uint64
	history *oracle.History
	repeats crashRepeats

	recoveries atomic.Int64 // opens of a state that a cut left
	logDirs    []string     // see crashWorkload; any may follow any
	opens      atomic.Int64 // all opens
	repeated   atomic.Int64 // states that were judged a moment ago
	refused    atomic.Int64 // with M4 only: garbage before good records looks like damage
}

// open opens a disk under the order checker. One open in eight also compacts, which costs as much as all the others.
func (j *crashJudge) open(mem *vfs.Mem) (*db.DB, *order.FS, error) {
	n := j.opens.Add(1)
	checker := order.New(mem)
	o := crashOptions(checker, j.seed)
	if n%8 != 0 {
		o.Compaction.L0Trigger = 100
	}
	if len(j.logDirs) > 0 {
		o.LogDir = j.logDirs[n%int64(len(j.logDirs))]
	}
	d, err := db.Open("db", o)
	return d, checker, err
}

// judge recovers one state. Its entries must be those of a prefix of the commits that holds the
// promised ones. Then the power is cut again, right after Open or after some writes. The next open must
// find the same entries and those of the new writes that were promised.
func (j *crashJudge) judge(s recorder.State, cut int, model recorder.Model) error {
	fresh := 3 * min(1, cut%4) // writes after the recovery, of which the second is synced
	if state, ok := j.repeats.find(s.Image, fresh); ok {
		j.repeated.Add(1)
		_, err := j.history.Check(state, cut, model.KeepsAll())
		return err
	}
	j.recoveries.Add(1)
	mem := s.Mem()
	d, checker, err := j.open(mem)
	if err != nil {
		if model == recorder.M4 && errors.Is(err, db.ErrCorruption) {
			j.refused.Add(1)
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	if err := noTempFiles(mem); err != nil {
		_ = d.Close()
		return err
	}
	state, err := dump(d)
	if err == nil {
		_, err = j.history.Check(state, cut, model.KeepsAll())
	}
	if err == nil {
		err = j.checkGets(d, state)
	}
	for i := 0; i < fresh && err == nil; i++ {
		err = d.Put(fmt.Appendf(nil, "~new%d", i), []byte("new"), &db.WriteOptions{NoSync: i != 1})
	}
	after := mem.Crash()
	err = errors.Join(err, d.Close())
	if v := checker.Violations(); err == nil && len(v) > 0 {
		err = fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	if err == nil {
		err = j.checkSecondCut(after, state, fresh*2/3, fresh)
	}
	if err == nil {
		j.repeats.add(judgedDisk{s.Image, fresh, state})
	}
	return err
}

// noTempFiles returns an error if the database, which has just been opened, has files of an unfinished change.
func noTempFiles(mem *vfs.Mem) error {
	names, err := mem.List("db")
	for _, name := range names {
		if kind, _, ok := base.ParseFileName(name); ok && kind == base.FileTemp {
			return fmt.Errorf("%s is left", name)
		}
	}
	return err
}

// judgeDisk recovers one state and checks nothing more.
func (j *crashJudge) judgeDisk(mem *vfs.Mem, cut int, keepsAll bool) error {
	j.recoveries.Add(1)
	d, _, err := j.open(mem)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	state, err := dump(d)
	if err == nil {
		_, err = j.history.Check(state, cut, keepsAll)
	}
	err = errors.Join(err, d.Close())
	return err
}

// judgeNested recovers one state and cuts the power at every operation of that recovery, including
// the compactions that follow it and Close.
func (j *crashJudge) judgeNested(s recorder.State, cut int, model recorder.Model) error {
	r := recorder.New(s.Image)
	o := crashOptions(fixture.LogsOf(j.seed, r), j.seed)
	if len(j.logDirs) > 0 {
		o.LogDir = j.logDirs[cut%len(j.logDirs)]
	}
	d, err := db.Open("db", o)
	if err != nil {
		if model == recorder.M4 && errors.Is(err, db.ErrCorruption) {
			j.refused.Add(1)
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	storetest.WaitUntilIdle(d)
	if err := d.Close(); err != nil {
		return err
	}
	trace := r.Trace()
	c := trace.Cursor()
	var last recorder.Image
	for nested := 0; nested <= len(trace.Ops); nested++ {
		c.Seek(nested)
		for _, m := range []recorder.Model{recorder.M0, recorder.M2} {
			for n := range c.States(m, j.seed) {
				if m == recorder.M0 {
					if nested > 0 && sameImage(last, n.Image) {
						j.repeated.Add(1)
						continue
					}
					last = n.Image
				}
				if err := j.judgeDisk(n.Mem(), cut, model.KeepsAll()); err != nil {
					return fmt.Errorf("in its recovery %v, %s %s: %w", m, trace.At(nested), n.Detail, err)
				}
			}
		}
	}
	return nil
}

// checkGets compares some Gets, which use the filters, with the iterator's entries.
func (j *crashJudge) checkGets(d *db.DB, state []oracle.Entry) error {
	want := map[string]string{}
	for _, e := range state {
		want[e.Key] = e.Value
	}
	keys := j.history.Keys()
	for i := 0; i < len(keys); i += 7 {
		got, err := d.Get([]byte(keys[i]))
		value, exists := want[keys[i]]
		if err != nil && (err != db.ErrNotFound || exists) || err == nil && (!exists || string(got) != value) {
			return fmt.Errorf("Get of %q: %q, %v; the iterator shows %q, %v", keys[i], got, err, value, exists)
		}
	}
	return nil
}

// checkSecondCut opens the disk after a second cut. It must have the entries that the first recovery
// found and the first of the new writes, from low to high of them.
func (j *crashJudge) checkSecondCut(mem *vfs.Mem, want []oracle.Entry, low, high int) error {
	d, checker, err := j.open(mem)
	if err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	got, err := dump(d)
	if err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	fresh := len(got) - len(want)
	if fresh < low || fresh > high || !slices.Equal(got[:len(want)], want) {
		return fmt.Errorf("second open: found %d entries, want %d and %d to %d of the new ones; %s",
			len(got), len(want), low, high, firstDifference(want, got))
	}
	if err := d.Close(); err != nil {
		return err
	}
	if v := checker.Violations(); len(v) > 0 {
		return fmt.Errorf("second open: order of operations: %s", strings.Join(v, "; "))
	}
	return nil
}

func firstDifference(want, got []oracle.Entry) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("entry %d was %q, is %q", i, want[i], got[i])
		}
	}
	return "one is a prefix of the other"
}

// crashRepeats caches the disks that were judged last and their entries. An operation that makes nothing durable leaves
// the disk of M0 unchanged, and one that only makes data durable leaves that of M1 unchanged. Recovering such a disk
// again shows nothing new. The promises at each cut are checked every time.
type crashRepeats struct {
	mu   sync.Mutex
	last []judgedDisk
	next int // index in last of the disk to replace next
}

type judgedDisk struct {
	image recorder.Image
	fresh int // writes after the recovery
	state []oracle.Entry
}

// crashesRemembered suffices for each judging goroutine, model and number of fresh writes on machines
// of up to eight processors.
const crashesRemembered = 64

// find returns the entries of the disk if it is one of those judged last.
func (r *crashRepeats) find(im recorder.Image, fresh int) (state []oracle.Entry, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.last {
		if d.fresh == fresh && sameImage(d.image, im) {
			return d.state, true
		}
	}
	return nil, false
}

func (r *crashRepeats) add(d judgedDisk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) < crashesRemembered {
		r.last = append(r.last, d)
		return
	}
	r.last[r.next] = d
	r.next = (r.next + 1) % crashesRemembered
}

// sameImage is fast for files whose bytes are the same memory of the trace.
func sameImage(a, b recorder.Image) bool {
	return slices.Equal(a.Dirs, b.Dirs) && slices.EqualFunc(a.Files, b.Files, func(x, y recorder.ImageFile) bool {
		return x.Path == y.Path && bytes.Equal(x.Data, y.Data)
	})
}
