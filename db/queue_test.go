package db

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Some writers become the leader by swapping the state, others from the queue. There are always
// both kinds here, so they take turns in every order.
func TestSingleAndQueuedWritersAllGetTheirTurn(t *testing.T) {
	const writers, each = 6, 300
	d := openTest(t, testOptions(vfs.NewMem()))
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				n := i*writers + w
				wo := []*WriteOptions{NoSync, Buffered, NoSync, Sync}[i%4]
				var err error
				if i%16 == 0 {
					b := &Batch{}
					b.Put(testKey(n), testValue(n))
					err = d.Apply(b, wo)
				} else {
					err = d.Put(testKey(n), testValue(n), wo)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for n := range writers * each {
		got, err := d.Get(testKey(n))
		require.NoError(t, err)
		require.Equal(t, string(testValue(n)), string(got))
	}
	m := d.Metrics()
	require.EqualValues(t, writers*each, m.Writes.Batches)
	require.EqualValues(t, writers*each, m.LastSequence)
	require.EqualValues(t, commitIdle, d.commit.state.Load(), "no writer is left in the queue")
}

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
