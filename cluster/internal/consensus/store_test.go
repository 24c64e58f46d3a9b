package consensus

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestALogThatDoesNotContinueTheSnapshotIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		snapshot, term    uint64
		first, last       uint64 // of the log, whose entries have term 2
		wantFirst, wanted uint64
		err               error
	}{
		"an empty log":                       {snapshot: 5, term: 3},
		"no snapshot":                        {first: 1, last: 9, wantFirst: 1, wanted: 9},
		"the same term at the snapshot":      {snapshot: 5, term: 2, first: 3, last: 9, wantFirst: 3, wanted: 9},
		"another term at the snapshot":       {snapshot: 5, term: 3, first: 3, last: 9},
		"another term at the end":            {snapshot: 9, term: 3, first: 3, last: 9},
		"a log that ends before":             {snapshot: 9, term: 3, first: 3, last: 8},
		"a log that begins after":            {snapshot: 5, term: 3, first: 6, last: 9, wantFirst: 6, wanted: 9},
		"entries missing after the snapshot": {snapshot: 5, term: 2, first: 7, last: 9, err: ErrStateBehind},
		"entries missing without snapshot":   {first: 2, last: 9, err: ErrStateBehind},
	} {
		t.Run(name, func(t *testing.T) {
			store, fsm := &memory{InmemStore: raft.NewInmemStore()}, &recorder{}
			for i := c.first; i <= c.last && i > 0; i++ {
				require.NoError(t, store.StoreLog(&raft.Log{Index: i, Term: 2}))
			}
			if c.snapshot > 0 {
				fsm.metas = []*raft.SnapshotMeta{{Index: c.snapshot, Term: c.term}}
			}
			err := reconcile(store, fsm)
			require.ErrorIs(t, err, c.err)
			if c.err != nil {
				return
			}
			first, err := store.FirstIndex()
			require.NoError(t, err)
			last, err := store.LastIndex()
			require.NoError(t, err)
			require.Equal(t, [2]uint64{c.wantFirst, c.wanted}, [2]uint64{first, last})
		})
	}
}

func TestABootstrapThatWasCutIsCompleted(t *testing.T) {
	bootstrapped := func(prepare func(*memory)) uint64 {
		store := &memory{InmemStore: raft.NewInmemStore()}
		prepare(store)
		o := Options{Logs: store, Stable: store, Snapshots: &recorder{}, Bootstrap: []Server{{ID: "a", Address: "x:1", Voter: true}}}
		require.NoError(t, bootstrap(&o))
		last, err := store.LastIndex()
		require.NoError(t, err)
		return last
	}
	require.EqualValues(t, 1, bootstrapped(func(*memory) {}))
	require.EqualValues(t, 1, bootstrapped(func(m *memory) { m.SetUint64([]byte("CurrentTerm"), 1) }))
	require.EqualValues(t, 0, bootstrapped(func(m *memory) { m.SetUint64([]byte("CurrentTerm"), 2) }), "it was a member")
	require.EqualValues(t, 0, bootstrapped(func(m *memory) { m.SetUint64([]byte("LastVoteTerm"), 1) }), "it has voted")
	require.EqualValues(t, 3, bootstrapped(func(m *memory) {
		for i := uint64(1); i <= 3; i++ {
			m.StoreLog(&raft.Log{Index: i, Term: 1})
		}
	}))
}
