package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/disk/batch"
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
