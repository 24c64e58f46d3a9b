package kvtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

func putKey(t *testing.T, g kv.Group, key, value string, expireAt int64) kv.Pending {
	t.Helper()
	p, err := g.Update(t.Context(), func(tx kv.Tx) error {
		tx.Put([]byte(key), kv.Value{Data: []byte(value), ExpireAt: expireAt})
		return nil
	})
	require.NoError(t, err)
	return p
}

func getKey(t *testing.T, g kv.Group, key string) string {
	t.Helper()
	value := "absent"
	require.NoError(t, g.View(t.Context(), false, func(r kv.Reader) error {
		v, found, err := r.Get([]byte(key))
		if found {
			value = string(v.Data)
		}
		return err
	}))
	return value
}

func TestHeldEntriesAreSeenByCommandsAndNotByViews(t *testing.T) {
	n := New(1)
	g, _ := n.Group(0)
	n.World().Hold(0)
	p := putKey(t, g, "k", "v", 0)
	require.Equal(t, "absent", getKey(t, g, "k"))

	expired, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Wait(expired), kv.ErrUnknown)

	n.World().Release(0)
	require.NoError(t, p.Wait(t.Context()))
	require.Equal(t, "v", getKey(t, g, "k"))
}

func TestDroppedEntriesNeverHappened(t *testing.T) {
	n := New(1)
	g, _ := n.Group(0)
	require.NoError(t, putKey(t, g, "k", "old", 0).Wait(t.Context()))
	n.World().Hold(0)
	p := putKey(t, g, "k", "new", 0)
	w, err := g.Watch(t.Context(), [][]byte{[]byte("k")})
	require.NoError(t, err)
	n.World().Drop(0, kv.ErrUnknown)
	require.ErrorIs(t, p.Wait(t.Context()), kv.ErrUnknown)
	_, err = g.Update(t.Context(), func(tx kv.Tx) error {
		v, _, err := tx.Get([]byte("k"))
		require.Equal(t, "old", string(v.Data))
		require.True(t, w.Dirty())
		return err
	})
	require.NoError(t, err)
}

func TestAFailedUpdateChangesNothing(t *testing.T) {
	g, _ := New(1).Group(0)
	require.NoError(t, putKey(t, g, "k", "old", 0).Wait(t.Context()))
	failure := errors.New("failure")
	_, err := g.Update(t.Context(), func(tx kv.Tx) error {
		tx.Put([]byte("k"), kv.Value{Data: []byte("new")})
		tx.DeleteAll()
		tx.Put([]byte("l"), kv.Value{})
		return failure
	})
	require.ErrorIs(t, err, failure)
	require.Equal(t, "old", getKey(t, g, "k"))
	require.Equal(t, "absent", getKey(t, g, "l"))
}

func TestKeysExpireByTheClockOfTheWorld(t *testing.T) {
	n := New(1)
	g, _ := n.Group(0)
	putKey(t, g, "k", "v", Epoch+1000)
	n.World().Advance(999 * time.Millisecond)
	require.Equal(t, "v", getKey(t, g, "k"))
	n.World().Advance(time.Millisecond)
	require.Equal(t, "absent", getKey(t, g, "k"))
}

func TestScansAreInOrder(t *testing.T) {
	g, _ := New(1).Group(0)
	for _, key := range []string{"{s}b", "{s}a", "{s}d", "{s}c"} {
		putKey(t, g, key, "v", 0)
	}
	got := ""
	require.NoError(t, g.View(t.Context(), false, func(r kv.Reader) error {
		return r.Scan(slot.Of([]byte("{s}")), []byte("{s}b"), []byte("{s}d"), true, func(key []byte, _ kv.Value) bool {
			got += string(key)
			return true
		})
	}))
	require.Equal(t, "{s}c{s}b", got)
}
