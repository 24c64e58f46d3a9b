package interop

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
)

// Values that expire are ordinary values for the other engines, a few bytes longer. What the MANIFEST
// records, the time of the store and the prefixes, survives their opening, writing and compacting: what had
// expired stays hidden when the clock is set back meanwhile, and no envelope is shown as a value.
func TestTheOthersKeepValuesThatExpireAndTheTime(t *testing.T) {
	forEachOther(t, func(t *testing.T, other Engine, reuse bool) {
		now := int64(1_700_000_000_000)
		options := &db.Options{
			Memtables: db.MemtableOptions{Size: 32 << 10}, Tables: db.TableOptions{Size: 16 << 10},
			Expiry: db.ExpiryOptions{Prefixes: [][]byte{[]byte("t/")}, Clock: func() time.Time { return time.UnixMilli(now) }},
		}
		s := newSession(t, SieveDB{}, Options{WriteBufferSize: 32 << 10, TableSize: 16 << 10, ReuseLogs: reuse})
		s.close()
		d, err := db.Open(s.dir, options)
		require.NoError(t, err)
		want := map[string]string{}
		for i := range 1000 {
			key, value := fmt.Sprintf("t/%05d", i), string(s.bytes(50))
			switch i % 3 {
			case 0:
				require.NoError(t, d.Put([]byte(key), []byte(value), nil))
				want[key] = value
			case 1:
				require.NoError(t, d.PutTTL([]byte(key), []byte(value), time.Minute, nil))
			default:
				require.NoError(t, d.PutTTL([]byte(key), []byte(value), time.Hour, nil))
				want[key] = value
			}
			if i == 700 {
				require.NoError(t, d.Compact(t.Context(), nil, nil))
			}
		}
		now += time.Minute.Milliseconds()
		require.NoError(t, d.Close())
		now -= time.Minute.Milliseconds()

		raw := *options // as the other engine will see it
		raw.Expiry = db.ExpiryOptions{Raw: true}
		d, err = db.Open(s.dir, &raw)
		require.NoError(t, err)
		all, done := d.All(nil)
		entries := 0
		for key, value := range all {
			require.Len(t, value, 59)
			s.model.Apply([]Op{Put(bytes.Clone(key), bytes.Clone(value))})
			entries++
		}
		require.NoError(t, done())
		require.Equal(t, 1000, entries)
		require.NoError(t, d.Close())
		s.continueWith(other)
		s.put("u", "written by the other engine")
		s.delete("t/00000")
		delete(want, "t/00000")
		s.compact()
		s.verify()
		s.close()

		options.Expiry.Prefixes = nil // the others have kept the record
		d, err = db.Open(s.dir, options)
		require.NoError(t, err)
		got := map[string]string{}
		it, err := d.NewIterator(&db.IterOptions{UpperBound: []byte("u")})
		require.NoError(t, err)
		for key, value := range it.All() {
			got[string(key)] = string(value)
		}
		require.NoError(t, it.Close())
		require.Equal(t, want, got)
		require.NoError(t, d.Close())
	})
}
