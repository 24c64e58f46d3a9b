package machine

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func TestAFrozenStateDoesNotChange(t *testing.T) {
	m := open(t, vfs.NewMem())
	fill(t, m, 1, 200)
	err := m.Frozen(context.Background(), func(_ context.Context, d *db.DB, index, term uint64) error {
		require.EqualValues(t, 200, index)
		require.EqualValues(t, 1, term)
		fill(t, m, 201, 300)
		at, err := readPosition(d)
		require.NoError(t, err)
		require.EqualValues(t, 200, at.index)
		return nil
	})
	require.NoError(t, err)
	applied, _ := m.Applied()
	require.EqualValues(t, 300, applied)
	require.Equal(t, []string{"STATE", "state-000001"}, dirs(t, m.fs), "what was frozen is left")
}

func TestCloseEndsTheUseOfAFrozenState(t *testing.T) {
	m := open(t, vfs.NewMem())
	fill(t, m, 1, 10)
	frozen, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- m.Frozen(context.Background(), func(ctx context.Context, _ *db.DB, _, _ uint64) error {
			close(frozen)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-frozen
	closeMachine(t, m)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		require.Fail(t, "Close did not wait for the user")
	}
}

func TestWhatACrashLeftOfAFrozenStateIsRemoved(t *testing.T) {
	disk := vfs.NewMem()
	m := open(t, disk)
	fill(t, m, 1, 10)
	var after *vfs.Mem
	err := m.Frozen(context.Background(), func(context.Context, *db.DB, uint64, uint64) error {
		after = disk.Crash()
		return nil
	})
	require.NoError(t, err)
	_ = m.Close() // on a disk that has gone
	open(t, after)
	require.Equal(t, []string{"STATE", "state-000001"}, dirs(t, after))
}

func TestARebasedStateKeepsItsDataAndBeginsAnotherHistory(t *testing.T) {
	disk := vfs.NewMem()
	m := open(t, disk)
	fill(t, m, 1, 100)
	before, clock := content(t, m), m.Clock()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "9.4", Address: "9.4", Suffrage: raft.Voter}}}
	require.NoError(t, m.Rebase(1, 1, servers, map[string][]byte{"map": []byte("new")}))
	after := disk.Crash() // it is durable
	_ = m.Close()
	m = open(t, after)
	index, term := m.Applied()
	require.EqualValues(t, 1, index)
	require.EqualValues(t, 1, term)
	c, at := m.Configuration()
	require.Equal(t, servers, c)
	require.EqualValues(t, 1, at)
	require.Equal(t, before, content(t, m))
	require.Equal(t, clock, m.Clock())
	for name, want := range map[string][]byte{"map": []byte("new"), "other": nil} {
		value, err := m.Meta(name)
		require.NoError(t, err)
		require.Equal(t, want, value)
	}
	require.Equal(t, []any{ErrSuperseded}, m.ApplyBatch([]*raft.Log{chained(t, 2, 2, layout.Chain{Term: 2, Number: 5}, 1)}))
	require.Equal(t, []any{nil}, m.ApplyBatch([]*raft.Log{command(t, 3, 2, 2, 1, put("new", "value"))}))
}

func TestADirectoryWithAStateDoesNotAdoptAnother(t *testing.T) {
	disk := vfs.NewMem()
	closeMachine(t, open(t, disk))
	require.ErrorContains(t, Adopt(disk, "replica"), "has a state already")
}
