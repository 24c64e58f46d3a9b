package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

func requireTTL(t *testing.T, r interface {
	GetTTL(key []byte) ([]byte, time.Duration, error)
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}, key, value string, ttl time.Duration) {
	t.Helper()
	got, left, err := r.GetTTL([]byte(key))
	require.NoError(t, err)
	require.Equal(t, value, string(got))
	require.Equal(t, ttl, left)
	it, err := r.NewIterator(nil)
	require.NoError(t, err)
	defer it.Close()
	require.True(t, it.SeekGE([]byte(key)))
	require.Equal(t, ttl, it.TTL())
	require.True(t, it.Last())
	for string(it.Key()) != key {
		require.True(t, it.Prev())
	}
	require.Equal(t, ttl, it.TTL())
}

func TestReadsReturnTheTimeThatRemains(t *testing.T) {
	c := newTestClock()
	o := expiryOptions(c)
	o.Expiry.Namespaces = []string{"n"}
	d := openTest(t, o)
	putTTL(t, d, "t/a", "1", time.Minute)
	putAll(t, d, "t/b", "2", "u", "3")
	n, err := d.Namespace("n")
	require.NoError(t, err)
	require.NoError(t, n.PutTTL([]byte("a"), []byte("4"), time.Minute, nil))
	c.move(time.Second)
	s := d.NewSnapshot()
	defer s.Close()
	c.move(time.Second)
	for range 2 {
		requireTTL(t, d, "t/a", "1", 58*time.Second)
		requireTTL(t, s, "t/a", "1", 59*time.Second)
		requireTTL(t, n, "a", "4", 58*time.Second)
		requireTTL(t, d, "t/b", "2", 0)
		requireTTL(t, d, "u", "3", 0)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		requireTTL(t, tx, "t/a", "1", 58*time.Second)
		require.NoError(t, tx.PutTTL([]byte("t/a"), []byte("5"), time.Hour))
		requireTTL(t, tx, "t/a", "5", time.Hour)
		require.NoError(t, tx.Put([]byte("t/a"), []byte("6")))
		requireTTL(t, tx, "t/a", "6", 0)
		return tx.Delete([]byte("t/a"))
	}))
	_, _, err = d.GetTTL([]byte("t/a"))
	require.Equal(t, db.ErrNotFound, err)
	_, _, err = (*db.DB)(nil).GetTTL(nil)
	require.Equal(t, db.ErrClosed, err)
	require.Zero(t, (*db.Iterator)(nil).TTL())
}

// The bug: a lease that was renewed by CompareAndSwap or Modify never ended.
func TestModifyAndCompareAndSwapKeepWhenAValueExpires(t *testing.T) {
	c, d := expiringStore(t)
	key := []byte("t/a")
	putTTL(t, d, "t/a", "1", time.Minute)
	c.move(time.Second)
	swapped, err := d.CompareAndSwap(key, []byte("1"), []byte("2"), nil)
	require.NoError(t, err)
	require.True(t, swapped)
	requireTTL(t, d, "t/a", "2", 59*time.Second)
	c.move(time.Second)
	require.NoError(t, d.Modify(key, func(old []byte) ([]byte, error) { return append(old, '3'), nil }, nil))
	requireTTL(t, d, "t/a", "23", 58*time.Second)
	swapped, err = d.CompareAndSwapTTL(key, []byte("23"), []byte("4"), time.Hour, nil)
	require.NoError(t, err)
	require.True(t, swapped)
	requireTTL(t, d, "t/a", "4", time.Hour)
	swapped, err = d.CompareAndSwapTTL(key, []byte("23"), []byte("5"), 0, nil)
	require.NoError(t, err)
	require.False(t, swapped)
	require.NoError(t, d.ModifyTTL(key, func(old []byte, ttl time.Duration) ([]byte, time.Duration, error) {
		require.Equal(t, "4", string(old))
		return old, ttl / 2, nil
	}, nil))
	requireTTL(t, d, "t/a", "4", time.Hour/2)
	swapped, err = d.CompareAndSwapTTL(key, []byte("4"), []byte("5"), 0, nil)
	require.NoError(t, err)
	require.True(t, swapped)
	requireTTL(t, d, "t/a", "5", 0)
	for _, other := range []string{"t/new", "u"} { // no value, and no envelope
		require.NoError(t, d.Modify([]byte(other), func([]byte) ([]byte, error) { return []byte("6"), nil }, nil))
		requireTTL(t, d, other, "6", 0)
	}
	require.ErrorContains(t, d.ModifyTTL(key, func([]byte, time.Duration) ([]byte, time.Duration, error) { return key, -2, nil }, nil),
		"the time to live of the new value is -2ns; it must be positive, 0 for a value that does not expire, or KeepTTL")
	_, err = d.CompareAndSwapTTL([]byte("u"), []byte("6"), []byte("7"), time.Second, nil)
	require.ErrorContains(t, err, "under none of Options.Expiry.Prefixes")
	putTTL(t, d, "t/a", "1", time.Minute)
	require.NoError(t, d.Modify(key, func([]byte) ([]byte, error) { return []byte("2"), nil }, nil))
	c.move(time.Minute)
	requireEverywhere(t, d, "t/a", "", "u", "6")
}

// The bug: the holder of a lock that had ended committed after others had seen the lock free.
func TestATransactionConflictsIfAValueThatItReadHasExpired(t *testing.T) {
	reads := map[string]func(tx *db.Transaction) error{
		"Get":    func(tx *db.Transaction) error { _, err := tx.Get([]byte("t/lock")); return err },
		"GetTTL": func(tx *db.Transaction) error { _, _, err := tx.GetTTL([]byte("t/lock")); return err },
		"GetTo":  func(tx *db.Transaction) error { _, err := tx.GetTo(nil, []byte("t/lock")); return err },
		"Has":    func(tx *db.Transaction) error { _, err := tx.Has([]byte("t/lock")); return err },
		"MultiGet": func(tx *db.Transaction) error {
			_, err := tx.MultiGet([][]byte{[]byte("u"), []byte("t/lock")})
			return err
		},
		"an iterator": func(tx *db.Transaction) error {
			it, err := tx.NewIterator(nil)
			require.NoError(t, err)
			require.True(t, it.First())
			return it.Close()
		},
		"an iterator of keys": func(tx *db.Transaction) error {
			it, err := tx.NewIterator(&db.IterOptions{KeysOnly: true})
			require.NoError(t, err)
			require.True(t, it.SeekLT([]byte("u")))
			return it.Close()
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			c, d := expiringStore(t)
			putAll(t, d, "u", "1")
			for _, passed := range []time.Duration{0, time.Second - time.Millisecond, time.Second, time.Hour} {
				putTTL(t, d, "t/lock", "mine", time.Second)
				tx := d.NewTransaction(nil)
				require.NoError(t, read(tx))
				require.NoError(t, tx.Put([]byte("v"), []byte("2")))
				c.move(passed)
				_, err := d.Get([]byte("t/lock"))
				require.Equal(t, passed >= time.Second, errors.Is(err, db.ErrNotFound))
				c.move(-time.Hour) // the time of the store does not go back
				if passed < time.Second {
					require.NoError(t, tx.Commit())
				} else {
					require.Equal(t, db.ErrConflict, tx.Commit())
				}
				c.move(time.Hour + time.Second)
			}
			tx := d.NewTransaction(nil) // it sees that the value is gone, which stays true
			_, err := tx.Get([]byte("t/lock"))
			require.Equal(t, db.ErrNotFound, err)
			require.NoError(t, tx.Put([]byte("v"), []byte("3")))
			c.move(time.Hour)
			require.NoError(t, tx.Commit())
		})
	}
	c, d := expiringStore(t)
	putTTL(t, d, "t/lock", "mine", time.Second)
	calls := 0
	require.NoError(t, d.Update(func(tx *db.Transaction) error {
		calls++
		held, err := tx.Has([]byte("t/lock"))
		require.NoError(t, err)
		require.Equal(t, calls == 1, held)
		c.move(time.Second)
		return tx.Put([]byte("v"), []byte("2"))
	}))
	require.Equal(t, 2, calls, "Update repeats it")
}
