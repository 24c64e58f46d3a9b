package db

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Close may come at any moment of a bulk transaction. What is called then returns ErrClosed, and nothing else.
func TestClosingTheDatabaseDuringABulkTransaction(t *testing.T) {
	for round := range 30 {
		mem := vfs.NewMem()
		d := mustOpen(t, testOptions(mem))
		require.NoError(t, d.Put(testKey(1), []byte("old"), Sync))
		b := newBulk(t, d)
		begun := make(chan struct{})
		var wg sync.WaitGroup
		var failure error
		wg.Go(func() { failure = useBulk(b, begun, 200+20*round) })
		<-begun
		_ = d.Close() // it says what was still open, if anything was
		wg.Wait()
		require.Equal(t, ErrClosed, failure)
		require.Equal(t, ErrClosed, b.Commit())
		d = mustOpen(t, testOptions(mem))
		requireContent(t, d, string(testKey(1)), "old")
		require.NoError(t, d.Close())
	}
}

// useBulk writes and reads until there is an error. It closes begun after n writes.
func useBulk(b *BulkTransaction, begun chan struct{}, n int) error {
	for i := 0; ; i++ {
		if i == n {
			close(begun)
		}
		if err := b.Put(testKey(i*7919%1000), testValue(i)); err != nil {
			return err
		}
		if _, err := b.Get(testKey(i % 1000)); err != nil && err != ErrNotFound {
			return err
		}
		if i%50 != 0 {
			continue
		}
		it, err := b.NewIterator(nil)
		if err != nil {
			return err
		}
		for range 20 {
			it.Next()
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
}
