package db

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

func TestCloseWaitsForSingleWritersAndRefusesLaterOnes(t *testing.T) {
	for range 20 {
		d, err := Open("db", &Options{FS: vfs.NewMem()})
		require.NoError(t, err)
		var group sync.WaitGroup
		var written [3]int
		for w := range written {
			group.Go(func() {
				for {
					err := d.Put(testKey(3*written[w]+w), testValue(w), NoSync)
					if err == ErrClosed {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					written[w]++
				}
			})
		}
		eventually(t, func() bool { return d.Metrics().Writes.Batches > 0 })
		require.NoError(t, d.Close())
		group.Wait()
		require.EqualValues(t, written[0]+written[1]+written[2], d.Metrics().Writes.Batches)
		require.ErrorIs(t, d.Put(testKey(1), nil, NoSync), ErrClosed)
		require.ErrorIs(t, d.Delete(testKey(1), Sync), ErrClosed)
	}
}
