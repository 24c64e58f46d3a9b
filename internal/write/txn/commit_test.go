package txn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/memtable"
)

// fakeStore has commits, of which a part is found by an examination.
type fakeStore struct {
	recent    *Recent
	visible   uint64
	examined  int
	conflicts int   // the examination that finds a conflict
	err       error // of an examination
	meanwhile func()
	before    []*batch.Batch
	written   bool
}

func (s *fakeStore) Visible() uint64 { return s.visible }

func (s *fakeStore) Examine() (uint64, error) {
	if s.examined++; s.examined == s.conflicts {
		return 0, base.ErrConflict
	}
	return s.visible, s.err
}

func (s *fakeStore) Write(check Check) error {
	s.meanwhile()
	err := check(s.before)
	s.written = err == nil
	return err
}

// commit is a commit of others.
func (s *fakeStore) commit(key string) {
	if s.recent.Watched() {
		s.recent.AddKey(s.visible, []byte(key))
	}
	s.visible++
}

// load is a commit of which no keys are known.
func (s *fakeStore) load() {
	s.visible++
	s.recent.Forget(s.visible)
}

func batchOf(key string) *batch.Batch {
	b := new(batch.Batch)
	b.Add(base.KindSet, []byte(key), nil)
	return b
}

func TestACommitIsCheckedAgainstAllOthers(t *testing.T) {
	failure := errors.New("failure")
	for name, test := range map[string]struct {
		prepare  func(s *fakeStore)
		want     error
		examined int
	}{
		"nothing happens":              {func(*fakeStore) {}, nil, 1},
		"an earlier change":            {func(s *fakeStore) { s.conflicts = 1 }, base.ErrConflict, 1},
		"the examination fails":        {func(s *fakeStore) { s.err = failure }, failure, 1},
		"another key in between":       {func(s *fakeStore) { s.meanwhile = func() { s.commit("other") } }, nil, 1},
		"the key in between":           {func(s *fakeStore) { s.meanwhile = func() { s.commit("key") } }, base.ErrConflict, 1},
		"another key in the group":     {func(s *fakeStore) { s.before = []*batch.Batch{batchOf("other"), {}} }, nil, 1},
		"the key in the group":         {func(s *fakeStore) { s.before = []*batch.Batch{{}, batchOf("key")} }, base.ErrConflict, 1},
		"one load":                     {func(s *fakeStore) { once(s, s.load) }, nil, 2},
		"one load with the key":        {func(s *fakeStore) { once(s, s.load); s.conflicts = 2 }, base.ErrConflict, 2},
		"a load each time":             {func(s *fakeStore) { s.meanwhile = s.load }, nil, examinations + 2},
		"a load each time, with a key": {func(s *fakeStore) { s.meanwhile, s.conflicts = s.load, examinations+2 }, base.ErrConflict, examinations + 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{recent: new(Recent), visible: 10, meanwhile: func() {}}
			s.recent.Begin()
			s.commit("before") // from here on commits are recorded
			test.prepare(s)
			reads := &Reads{Comparer: base.Bytewise}
			reads.AddKey([]byte("key"))
			require.Equal(t, test.want, Committer{s, reads, s.recent}.Commit())
			require.Equal(t, test.want == nil, s.written)
			require.Equal(t, test.examined, s.examined)
			s.recent.End()
			s.commit("after")
			require.False(t, s.recent.Watched())
		})
	}
}

// once makes f run before the first check only.
func once(s *fakeStore, f func()) {
	s.meanwhile = func() { f(); s.meanwhile = func() {} }
}

func TestConflictsAreRetried(t *testing.T) {
	turns, stop := NewTurns(), make(chan struct{})
	calls := 0
	fail := func(n int, last error) func(int) error {
		calls = 0
		return func(attempt int) error {
			calls++
			require.Equal(t, calls, attempt)
			if calls <= n {
				return base.ErrConflict
			}
			return last
		}
	}
	require.NoError(t, turns.Retry(stop, fail(0, nil)))
	require.Equal(t, 1, calls)
	failure := errors.New("failure")
	require.Equal(t, failure, turns.Retry(stop, fail(3, failure)))
	require.Equal(t, 4, calls)
	err := turns.Retry(stop, fail(attempts, nil))
	require.ErrorIs(t, err, base.ErrConflict)
	require.ErrorContains(t, err, "gave up after 100 attempts")
	require.Equal(t, attempts, calls)
	require.True(t, turns.Take(1, stop), "the turn was ended")
	close(stop)
	require.NoError(t, turns.Retry(stop, fail(5, nil)), "without a turn")
	turns.End()
}

// Only tables with entries above the start are read, and damage in them is an error.
func TestChangesInTablesAreFound(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	old := s.Add(1, 5, "old", 1, 2, 3, 4)
	s.Add(0, 8, "new", 2)
	damaged := s.Add(0, 9, "damaged", 3)
	s.Flip(damaged, 1)
	v := s.Version()
	for _, test := range []struct {
		key   int
		start uint64
		read  func(f *version.FileMeta, start uint64) bool
		found bool
		fails bool
	}{
		{1, 4, func(f *version.FileMeta, _ uint64) bool { return f.Num == old.Num }, true, false},
		{1, 5, func(f *version.FileMeta, _ uint64) bool { return f.Num == old.Num }, false, false},
		{2, 5, func(f *version.FileMeta, start uint64) bool { return f.Num != damaged.Num && start == 5 }, true, false},
		{2, 5, func(*version.FileMeta, uint64) bool { return false }, false, false},
		{3, 5, func(f *version.FileMeta, _ uint64) bool { return f.Num == damaged.Num }, false, true},
	} {
		reads := Reads{Comparer: base.Bytewise}
		reads.AddKey(tabletest.Key(test.key))
		reads.Prepare()
		found, err := reads.ConflictInTables(s.Cache, v, Numbers{test.start + 1, base.MaxSeq}, func(f *version.FileMeta) bool { return test.read(f, test.start) })
		require.Equal(t, test.found, found)
		if test.fails {
			require.ErrorIs(t, err, base.ErrCorruption)
			require.ErrorContains(t, err, "looking for changes of what the transaction read")
		} else {
			require.NoError(t, err)
		}
	}
}

// A batch of another goroutine costs one look at who writes it, not one for each key.
func TestWritesBesideAnObservedUpdateAreNotNoted(t *testing.T) {
	var b Observer
	written, err := b.Observe(func() error {
		elsewhere := make(chan *Observation)
		go func() { elsewhere <- b.Observation() }()
		require.Nil(t, <-elsewhere)
		b.Observation().NoteKey([]byte("key"))
		inner, err := b.Observe(func() error {
			var own batch.Batch
			own.Add(base.KindSet, []byte("a"), nil)
			own.Add(base.KindDelete, []byte("b"), nil)
			b.Observation().NoteBatch(&own)
			return nil
		})
		require.Len(t, inner, 2)
		require.EqualValues(t, 1, b.Observing())
		return err
	})
	require.NoError(t, err)
	require.Len(t, written, 3, "those of an Update within it, too")
	require.Nil(t, b.Observation())
}

func oneRange(from, to int) []Range { return []Range{{Lower: key(from), Upper: key(to), Closed: true}} }

func TestChangesWithoutNumbersAreThoseBetweenTheStartAndTheHorizon(t *testing.T) {
	var u Untraced
	require.Zero(t, u.Last())
	u.Add(10, Change{Gone: oneRange(1, 2)}, 5)
	u.Add(12, Change{}, 5)
	u.Add(20, Change{Came: oneRange(3, 4)}, 5)
	require.EqualValues(t, 20, u.Last())
	for _, test := range []struct {
		start, horizon uint64
		want           Change
	}{
		{9, 9, Change{}},
		{9, 10, Change{Gone: oneRange(1, 2)}},
		{9, 25, Change{Gone: oneRange(1, 2), Came: oneRange(3, 4)}},
		{10, 25, Change{Came: oneRange(3, 4)}},
		{10, 19, Change{}}, // it is not visible: the leader will have it examined again
		{20, 25, Change{}},
	} {
		got, known := u.Between(test.start, test.horizon)
		require.True(t, known)
		require.Equal(t, test.want, got, "%d to %d", test.start, test.horizon)
	}
	u.Add(30, Change{Gone: oneRange(5, 6)}, 10) // nothing that is open is older than 10
	require.Len(t, u.changes, 2)
	_, known := u.Between(10, 30)
	require.True(t, known)
}

// A snapshot that stays open for days must not make a list that grows with each ingest.
func TestForgottenChangesMayHaveChangedAll(t *testing.T) {
	var u Untraced
	const n = 3 * maxUntraced
	for seq := range uint64(n) {
		u.Add(seq+2, Change{Came: oneRange(1, 2)}, 1)
		require.LessOrEqual(t, len(u.changes), maxUntraced)
	}
	_, known := u.Between(1, n+1)
	require.False(t, known)
	c, known := u.Between(n, n+1)
	require.True(t, known)
	require.Len(t, c.Came, 1)
}

func TestThePartOfASetWithinRanges(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		bound := func() []byte {
			if rnd.IntN(8) == 0 {
				return nil
			}
			return key(rnd.IntN(60))
		}
		r, limits := &Reads{Comparer: base.Bytewise}, &Reads{Comparer: base.Bytewise}
		for range rnd.IntN(6) {
			r.AddKey(key(rnd.IntN(60)))
			r.AddRange(bound(), bound(), rnd.IntN(2) == 0)
			limits.AddRange(bound(), bound(), rnd.IntN(2) == 0)
		}
		r.ranges, limits.ranges = proper(r.ranges), proper(limits.ranges)
		ranges := append([]Range{}, limits.ranges...) // in any order, and they may overlap
		limits.Prepare()
		r.Prepare()
		w := r.Within(ranges)
		for n := range 60 {
			require.Equal(t, r.Covers(key(n)) && limits.Covers(key(n)), w.Covers(key(n)), "seed %d, key %d", seed, n)
		}
	}
}

// proper leaves out the ranges that end before they begin, which no walk makes.
func proper(ranges []Range) (out []Range) {
	for _, a := range ranges {
		if a.Lower == nil || a.Upper == nil || string(a.Lower) <= string(a.Upper) {
			out = append(out, a)
		}
	}
	return out
}

// A key conflicts with removed tables if it had an entry, and with tables that came if it has one. Keys in
// the gaps do not.
func TestOnlyKeysWithEntriesConflictWithChangesWithoutNumbers(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Add(1, 5, "gone", 10, 14)
	pinned := s.Version()
	then := tabletest.New(t, filter.NewBloomPolicy(10))
	then.Add(1, 0, "came", 30, 34)
	now := then.Version()
	keys := func(from, to int) []Range {
		return []Range{{Lower: tabletest.Key(from), Upper: tabletest.Key(to), Closed: true}}
	}
	c := Change{Gone: keys(10, 14), Came: keys(30, 34)}
	for _, test := range []struct {
		key, to   int // a key, or a walk
		gone, now bool
	}{
		{5, 0, false, false}, {10, 0, true, false}, {12, 0, false, false}, {20, 0, false, false},
		{30, 0, false, true}, {32, 0, false, false}, {40, 0, false, false},
		{11, 13, false, false}, {11, 14, true, false}, {1, 9, false, false}, {1, 10, true, false},
		{31, 33, false, false}, {33, 50, false, true}, {35, 50, false, false}, {15, 29, false, false},
	} {
		r := &Reads{Comparer: base.Bytewise}
		if test.to == 0 {
			r.AddKey(tabletest.Key(test.key))
		} else {
			r.AddRange(tabletest.Key(test.key), tabletest.Key(test.to), true)
		}
		r.Prepare()
		found, err := r.ConflictUntraced(s.Cache, Change{Gone: c.Gone}, View{Version: pinned}, View{Version: now})
		require.NoError(t, err)
		require.Equal(t, test.gone, found, "%d to %d", test.key, test.to)
		found, err = r.ConflictUntraced(then.Cache, Change{Came: c.Came}, View{Version: pinned}, View{Version: now})
		require.NoError(t, err)
		require.Equal(t, test.now, found, "%d to %d", test.key, test.to)
	}
}

func key(n int) []byte { return fmt.Appendf(nil, "%03d", n) }

// A model of a set of reads: which of the keys 0 to 999 are in it.
func TestReadsAgreeWithAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		r, model := &Reads{Comparer: base.Bytewise}, map[int]bool{}
		for range rnd.IntN(40) {
			from := rnd.IntN(1000)
			switch rnd.IntN(6) {
			case 0:
				to := min(from+rnd.IntN(30), 999)
				closed := rnd.IntN(2) == 0
				r.AddRange(key(from), key(to), closed)
				for n := from; n < to || closed && n == to; n++ {
					model[n] = true
				}
			case 1:
				to := rnd.IntN(20)
				if rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(nil, key(to), false)
				for n := range to {
					model[n] = true
				}
			case 2:
				if from = 980 + rnd.IntN(20); rnd.IntN(4) > 0 {
					continue
				}
				r.AddRange(key(from), nil, false)
				for n := from; n < 1000; n++ {
					model[n] = true
				}
			default:
				r.AddKey(key(from))
				model[from] = true
			}
		}
		r.Prepare()
		for n := range 1000 {
			require.Equal(t, model[n], r.Covers(key(n)), "key %d", n)
		}
		requireConflicts(t, r, model, rnd)
	}
}

// requireConflicts compares Conflict with the model: a run has entries above and below the start.
func requireConflicts(t *testing.T, r *Reads, model map[int]bool, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		const start = 5000
		mem, want := memtable.New(base.Bytewise, 64<<10), false
		for i := range 1 + rnd.IntN(8) {
			n, seq := rnd.IntN(1000), uint64(start-i)
			if rnd.IntN(8) == 0 {
				seq = uint64(start + 1 + i)
				want = want || model[n]
			}
			require.True(t, mem.Add(seq, base.KindSet, key(n), nil))
		}
		got := result.Of(r.Conflict(mem.NewIter(), Numbers{start + 1, base.MaxSeq}))(t)
		require.Equal(t, want, got)
	}
}

func TestRepeatedReadsUseLittleMemory(t *testing.T) {
	r := &Reads{Comparer: base.Bytewise}
	for n := range compactBytes {
		r.AddKey(key(n % 7))
		require.LessOrEqual(t, len(r.recent), compactBytes+4)
	}
	r.Prepare()
	require.Len(t, r.keys, 7)
	for n := range 3 * compactRanges {
		r.AddRange(key(n%7), key(n%7+1), false)
	}
	r.Prepare()
	require.Len(t, r.ranges, 1)
}
