package db_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The bug: a key above half a gigabyte was accepted, and the database could not be opened any more, because the
// MANIFEST has the first and the last key of each table. The error for a value above a gigabyte mentioned batches.
func TestEntriesAboveALimitAreRefusedWithItsName(t *testing.T) {
	d := openTest(t, testOptions(vfs.NewMem()))
	require.NoError(t, d.Put([]byte("before"), []byte("1"), nil))
	longKey, longValue := make([]byte, db.MaxKeySize+1), make([]byte, db.MaxValueSize+1)
	applied := func(fill func(b *db.Batch)) error {
		var b db.Batch
		b.Put([]byte("in the same batch"), nil)
		fill(&b)
		b.Put([]byte("in the same batch too"), nil)
		return d.Apply(&b, nil)
	}
	loaded := func(key, value []byte) error {
		l, err := d.NewLoader()
		require.NoError(t, err)
		err = l.Put(key, value)
		require.Equal(t, err, l.Commit(), "the load has ended with that error")
		return err
	}
	key := fmt.Sprintf(`the key is %d bytes long.* at most %d \(MaxKeySize\)`, db.MaxKeySize+1, db.MaxKeySize)
	value := fmt.Sprintf(`the value is %d bytes long.* at most %d \(MaxValueSize\)`, db.MaxValueSize+1, db.MaxValueSize)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"Put of a key":             {d.Put(longKey, nil, nil), key},
		"Put of a key, not sync":   {d.Put(longKey, nil, db.NoSync), key},
		"Delete":                   {d.Delete(longKey, db.Buffered), key},
		"Put of a value":           {d.Put([]byte("k"), longValue, nil), value},
		"Batch.Put of a key":       {applied(func(b *db.Batch) { b.Put(longKey, nil) }), key},
		"Batch.Put of a value":     {applied(func(b *db.Batch) { b.Put([]byte("k"), longValue) }), value},
		"Batch.Delete":             {applied(func(b *db.Batch) { b.Delete(longKey) }), key},
		"Loader.Put of a key":      {loaded(longKey, nil), key},
		"Loader.Put of a value":    {loaded([]byte("k"), longValue), value},
		"the first one is named":   {applied(func(b *db.Batch) { b.Delete(longKey); b.Put(nil, longValue) }), key},
		"both: the key is named":   {d.Put(longKey, longValue, nil), key},
		"a value, of an empty key": {d.Put(nil, longValue, nil), value},
	} {
		require.ErrorIs(t, c.err, db.ErrTooLarge, name)
		require.Regexp(t, c.want, c.err.Error(), name)
		require.NotContains(t, c.err.Error(), "batch", name)
	}
	require.NoError(t, d.Put([]byte("after"), []byte("2"), nil), "nothing was written, and the store still works")
	require.Equal(t, contents{"after": "2", "before": "1"}, contentsIn(t, d))
}
