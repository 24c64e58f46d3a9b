package interop

import (
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
		for key, value := range contentOf(t, d) {
			require.Len(t, value, 59)
			s.model.Apply([]Op{Put([]byte(key), []byte(value))})
		}
		require.Equal(t, 1000, s.model.Len())
		require.NoError(t, d.Close())
		s.continueWith(other)
		want["u"] = "written by the other engine"
		s.put("u", want["u"])
		s.delete("t/00000")
		delete(want, "t/00000")
		s.compact()
		s.verify()
		s.close()

		options.Expiry.Prefixes = nil // the others have kept the record
		d, err = db.Open(s.dir, options)
		require.NoError(t, err)
		require.Equal(t, want, contentOf(t, d))
		require.NoError(t, d.Close())
	})
}
