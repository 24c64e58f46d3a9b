package wire

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that was restored from a backup may have the ID and the address of a node of the old cluster. Raft would
// believe it.
func TestNodesOfDifferentClustersDoNotTalkToEachOther(t *testing.T) {
	member := func(cluster string) *Listener {
		return listen(t, withSecret, func(o *Options) { o.Cluster = cluster })
	}
	one, other, sibling, newcomer := member("one"), member("other"), member("one"), member("")
	all := []*Listener{one, other, sibling, newcomer}
	for _, l := range all {
		l.Handle("hello", func(context.Context, json.RawMessage) (any, error) { return "hi", nil })
		l.Group(1)
	}
	call := func(from, to *Listener) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return from.Call(ctx, of(to), "hello", nil, nil)
	}
	dial := func(from, to *Listener) error {
		conn, err := from.Group(1).Dial(t.Context(), string(to.o.ID), to.Addr().String())
		if err == nil {
			require.NoError(t, conn.Close())
		}
		return err
	}
	require.NoError(t, call(one, sibling))
	require.NoError(t, dial(one, sibling))
	for _, to := range []*Listener{other, newcomer} {
		require.ErrorIs(t, call(one, to), ErrOtherCluster)
		require.ErrorIs(t, dial(one, to), ErrOtherCluster)
		require.ErrorIs(t, dial(one, to), ErrRefused)
	}
	require.NoError(t, call(newcomer, one), "a node that joins may ask")
	require.NoError(t, call(newcomer, other))
	require.ErrorIs(t, dial(newcomer, one), ErrOtherCluster)

	newcomer.SetIdentity("one", 1, Start{})
	require.NoError(t, call(newcomer, one))
	require.ErrorIs(t, call(newcomer, other), ErrOtherCluster, "a connection from before was used")
	require.NoError(t, call(one, newcomer))
	require.NoError(t, dial(one, newcomer))
}
