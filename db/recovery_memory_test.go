package db_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// The logs have many versions and are larger than a memtable. Read-only, the store shows the same
// entries as when it is opened for writing.
func TestAReadOnlyOpenDropsOnlyInvisibleVersions(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	batches := 300
	if sampled() {
		batches = 100
	}
	for _, keys := range []int{1, 3000, 200_000} {
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, uint64(keys)))
			mem := vfs.NewMem()
			o := &db.Options{FS: mem, Memtables: db.MemtableOptions{Size: 64 << 20}}
			d := openTest(t, o)
			model := map[string]string{}
			for range batches {
				var b db.Batch
				for range 500 {
					key := fmt.Appendf(nil, "%d", rnd.IntN(keys))
					if rnd.IntN(3) == 0 {
						b.Delete(key)
						delete(model, string(key))
						continue
					}
					value := fmt.Appendf(nil, "%0*d", rnd.IntN(100), rnd.Uint32())
					b.Put(key, value)
					model[string(key)] = string(value)
				}
				require.NoError(t, d.Apply(&b, db.NoSync))
			}
			big := make([]byte, 6<<20) // more than a memtable holds
			require.NoError(t, d.Put([]byte("big"), big, db.NoSync))
			model["big"] = string(big)
			require.NoError(t, d.Put([]byte("small"), nil, db.NoSync))
			model["small"] = ""

			r := mustOpen(t, &db.Options{FS: copyFS(t, mem), ReadOnly: true, Memtables: db.MemtableOptions{Size: 4 << 10}})
			kept, report := 0, r.OpenReport()
			s := r.State()
			for _, m := range append(s.Imm, s.Mem) {
				kept += m.Len()
			}
			require.EqualValues(t, 500*batches+2, report.Logs[0].Entries)
			if keys < 10_000 {
				require.Less(t, kept, 500*batches*2/3, "of %d", report.Logs[0].Entries)
			}
			it, err := r.NewIterator(nil)
			require.NoError(t, err)
			n := 0
			for key, value := range it.All() {
				want, ok := model[string(key)]
				require.True(t, ok)
				require.Equal(t, len(want), len(value))
				require.True(t, want == string(value))
				n++
			}
			require.NoError(t, it.Close())
			require.Equal(t, len(model), n)
			for i := 0; i < keys; i += 1 + keys/1000 {
				got, err := r.Get(fmt.Appendf(nil, "%d", i))
				want, ok := model[fmt.Sprint(i)]
				require.Equal(t, ok, err == nil, "%v", err)
				require.True(t, want == string(got))
			}
			require.NoError(t, r.Close())
		})
	}
}
