package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/crashtest/order"
	"github.com/sievedb/sievedb/internal/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// crashJudge opens the disks that cuts leave and asks the oracle about them.
type crashJudge struct {
	seed    uint64
	history *oracle.History
	// wrap, if not nil, comes between the store and the disk.
	wrap    func(vfs.FS) vfs.FS
	repeats crashRepeats

	recoveries atomic.Int64 // opens of a state that a cut left
	opens      atomic.Int64 // all opens
	repeated   atomic.Int64 // states that were judged a moment ago
	refused    atomic.Int64 // M4 alone: garbage in front of good records reads as damage
}

// open opens a disk under the order checker. One in eight compacts what it finds,
// which costs as much as all the rest.
func (j *crashJudge) open(mem *vfs.Mem) (*DB, *order.FS, error) {
	n := j.opens.Add(1)
	var fsys vfs.FS = mem
	if j.wrap != nil {
		fsys = j.wrap(fsys)
	}
	checker := order.New(fsys)
	o := crashOptions(checker, j.seed)
	if n%8 != 0 {
		o.Compaction.L0Trigger = 100
	}
	d, err := Open("db", o)
	return d, checker, err
}

// judge recovers one state: the answer must be a prefix that holds what was
// promised. Then the power is cut again, right behind the Open or after some
// writes, and the same answer must come, with those of the writes that were
// promised.
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
		if model == recorder.M4 && errors.Is(err, ErrCorruption) {
			j.refused.Add(1)
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	state, err := dump(d)
	if err == nil {
		_, err = j.history.Check(state, cut, model.KeepsAll())
	}
	if err == nil {
		err = j.askKeys(d, state)
	}
	for i := 0; i < fresh && err == nil; i++ {
		err = d.Put(fmt.Appendf(nil, "~new%d", i), []byte("new"), &WriteOptions{NoSync: i != 1})
	}
	after := mem.Crash()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if v := checker.Violations(); err == nil && len(v) > 0 {
		err = fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	if err == nil {
		err = j.again(after, state, fresh*2/3, fresh)
	}
	if err == nil {
		j.repeats.add(judgedDisk{s.Image, fresh, state})
	}
	return err
}

// judgeOnly recovers one state and asks for nothing more.
func (j *crashJudge) judgeOnly(s recorder.State, cut int, keepsAll bool) error {
	j.recoveries.Add(1)
	d, _, err := j.open(s.Mem())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	state, err := dump(d)
	if err == nil {
		_, err = j.history.Check(state, cut, keepsAll)
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// judgeNested recovers one state and cuts the power at every operation of that
// recovery, compactions that follow it and Close included.
func (j *crashJudge) judgeNested(s recorder.State, cut int, model recorder.Model) error {
	r := recorder.New(s.Image)
	var fsys vfs.FS = r
	if j.wrap != nil {
		fsys = j.wrap(fsys)
	}
	d, err := Open("db", crashOptions(fsys, j.seed))
	if err != nil {
		if model == recorder.M4 && errors.Is(err, ErrCorruption) {
			j.refused.Add(1)
			return nil
		}
		return fmt.Errorf("open: %w", err)
	}
	waitUntilIdle(d)
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
				if err := j.judgeOnly(n, cut, model.KeepsAll()); err != nil {
					return fmt.Errorf("in its recovery %v, %s %s: %w", m, trace.At(nested), n.Detail, err)
				}
			}
		}
	}
	return nil
}

// askKeys compares some Gets, which filters answer too, with the iterator.
func (j *crashJudge) askKeys(d *DB, state []oracle.Entry) error {
	want := map[string]string{}
	for _, e := range state {
		want[e.Key] = e.Value
	}
	keys := j.history.Keys()
	for i := 0; i < len(keys); i += 7 {
		got, err := d.Get([]byte(keys[i]))
		value, exists := want[keys[i]]
		if err != nil && (err != ErrNotFound || exists) || err == nil && (!exists || string(got) != value) {
			return fmt.Errorf("Get of %q: %q, %v; the iterator shows %q, %v", keys[i], got, err, value, exists)
		}
	}
	return nil
}

// again opens what a second cut left: what was answered before, and of the new
// writes the first few, from low to high of them.
func (j *crashJudge) again(mem *vfs.Mem, want []oracle.Entry, low, high int) error {
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
		return fmt.Errorf("second open: %d entries, before it were %d, then %d to %d were written; %s", len(got), len(want), low, high, firstDifference(want, got))
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
	return "one is the other's begin"
}
