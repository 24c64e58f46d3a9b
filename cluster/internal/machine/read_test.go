package machine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

func expiring(key, value string, at int64) write {
	return write{key, &kv.Value{Data: []byte(value), ExpireAt: at}}
}

// scan returns the keys and values of a scan, joined.
func scan(t *testing.T, r kv.Reader, slotNum uint16, start, limit []byte, reverse bool, most int) (got []string) {
	var keys [][]byte
	require.NoError(t, r.Scan(slotNum, start, limit, reverse, func(key []byte, v kv.Value) bool {
		keys = append(keys, key, v.Data)
		return len(keys)/2 < most
	}))
	for i := 0; i < len(keys); i += 2 { // they are still valid
		got = append(got, string(keys[i])+"="+string(keys[i+1]))
	}
	return got
}

func TestScansAreBoundedAndOrdered(t *testing.T) {
	m := open(t, vfs.NewMem())
	m.Apply(command(t, 1, 1, 1, 5, put("{s}a", "1"), put("{s}b", "2"), put("{s}c", "3"), put("other", "x"), expiring("{s}bb", "no", 5), expiring("{s}d", "4", 6)))
	n := slot.Of([]byte("{s}"))
	require.NoError(t, m.View(func(r kv.Reader) error {
		require.Equal(t, []string{"{s}a=1", "{s}b=2", "{s}c=3", "{s}d=4"}, scan(t, r, n, nil, nil, false, 9))
		require.Equal(t, []string{"{s}d=4", "{s}c=3", "{s}b=2", "{s}a=1"}, scan(t, r, n, nil, nil, true, 9))
		require.Equal(t, []string{"{s}b=2", "{s}c=3"}, scan(t, r, n, []byte("{s}b"), []byte("{s}d"), false, 9))
		require.Equal(t, []string{"{s}c=3"}, scan(t, r, n, []byte("{s}b"), []byte("{s}d"), true, 1))
		require.Empty(t, scan(t, r, n, nil, []byte{}, false, 9))
		require.Empty(t, scan(t, r, n+1, nil, nil, false, 9))
		require.Equal(t, int64(5), r.Now())
		return nil
	}))
}

func TestAKeyIsAbsentFromItsTimeOn(t *testing.T) {
	m := open(t, vfs.NewMem())
	get := func() (ok bool) {
		require.NoError(t, m.View(func(r kv.Reader) (err error) { _, ok, err = r.Get([]byte("a")); return err }))
		return ok
	}
	m.Apply(command(t, 1, 1, 1, 9, expiring("a", "1", 10), put("b", "2")))
	require.True(t, get())
	m.Apply(command(t, 2, 1, 1, 10))
	require.False(t, get())
}

func TestHintsAreWalkedInOrder(t *testing.T) {
	m := open(t, vfs.NewMem())
	m.Apply(command(t, 1, 1, 1, 1, expiring("c", "", 30), expiring("a", "", 10), expiring("b", "", 20)))
	walk := func(now int64, limit, stop int) (got []string) {
		require.NoError(t, m.HintsBefore(layout.ExpiryPrefix, now, limit, func(_ uint16, key []byte, at int64) bool {
			got = append(got, fmt.Sprint(string(key), at))
			return len(got) != stop
		}))
		return got
	}
	require.Equal(t, []string{"a10", "b20"}, walk(20, 9, 0))
	require.Equal(t, []string{"a10", "b20", "c30"}, walk(1<<63-1, 9, 0))
	require.Equal(t, []string{"a10"}, walk(30, 1, 0))
	require.Equal(t, []string{"a10"}, walk(30, 9, 1))
	require.Empty(t, walk(9, 9, 0))
	require.Empty(t, walk(-1, 9, 0))
	require.Empty(t, walk(30, 0, 0))
	require.NoError(t, m.WithDB(func(d *db.DB) error { return d.Put([]byte("x short"), nil, nil) }))
	require.ErrorIs(t, m.HintsBefore(layout.ExpiryPrefix, 1<<63-1, 9, func(uint16, []byte, int64) bool { return true }), db.ErrCorruption)
	require.ErrorIs(t, m.Err(), db.ErrCorruption)
}

// Each entry writes the same value to two keys and its time. A view sees one entry's, whatever is applied meanwhile.
func TestAViewSeesOneMoment(t *testing.T) {
	m := open(t, vfs.NewMem())
	m.Apply(command(t, 1, 1, 1, 1, put("a", "1"), put("b", "1")))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				err := m.View(func(r kv.Reader) error {
					a, _, err := r.Get([]byte("a"))
					if err != nil {
						return err
					}
					b, _, err := r.Get([]byte("b"))
					if want := fmt.Sprint(r.Now()); err == nil && (string(a.Data) != want || string(b.Data) != want) {
						return fmt.Errorf("a is %s, b is %s at %s", a.Data, b.Data, want)
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := uint64(2); i < 1000; i++ {
		value := fmt.Sprint(i)
		m.Apply(command(t, i, 1, 1, int64(i), put("a", value), put("b", value)))
	}
	close(done)
	wg.Wait()
}

func TestReadersOfTheOldStateFinishOnIt(t *testing.T) {
	other := open(t, vfs.NewMem())
	fill(t, other, 1, 90)
	incoming := stream(t, other)
	closeMachine(t, other)
	mem := vfs.NewMem()
	m := open(t, mem)
	m.Apply(command(t, 1, 1, 1, 1, put("a", "old")))
	require.NoError(t, m.View(func(r kv.Reader) error {
		require.NoError(t, install(m, incoming))
		index, _ := m.Applied()
		require.Equal(t, uint64(90), index)
		v, ok, err := r.Get([]byte("a"))
		require.True(t, ok)
		require.Equal(t, "old", string(v.Data))
		return err
	}))
	require.NoError(t, m.View(func(r kv.Reader) error {
		_, ok, err := r.Get([]byte("a"))
		require.False(t, ok)
		return err
	}))
	m.retired.Wait()
	require.Equal(t, []string{"STATE", "state-000002"}, dirs(t, mem))
	require.Equal(t, []any{nil}, m.ApplyBatch([]*raft.Log{simple(t, 91)}))
}

// One View evaluates many commands of a pipeline, and KEYS and DBSIZE read all keys in one.
func TestAReaderDoesNotKeepAllThatItHasShown(t *testing.T) {
	m := open(t, vfs.NewMem())
	value := strings.Repeat("x", 1<<20)
	m.Apply(command(t, 1, 1, 1, 5, put("a", value), put("b", "short")))
	require.NoError(t, m.View(func(r kv.Reader) error {
		short, _, err := r.Get([]byte("b"))
		require.NoError(t, err)
		first, _, err := r.Get([]byte("a"))
		require.NoError(t, err)
		for range 8 {
			_, ok, err := r.Get([]byte("a"))
			require.True(t, ok)
			require.NoError(t, err)
			require.Len(t, scan(t, r, slot.Of([]byte("a")), nil, nil, false, 9), 1)
			require.Less(t, cap(r.(*reader).data), 3<<20)
		}
		require.Equal(t, "short", string(short.Data), "what was shown stays valid")
		require.Equal(t, value, string(first.Data))
		return nil
	}))
}
