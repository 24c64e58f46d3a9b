package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
)

// A batch of another goroutine costs one look at who writes it, not one for each key.
func TestWritesBesideAnObservedUpdateAreNotNoted(t *testing.T) {
	var b Observer
	written, err := b.Observe(func() error {
		elsewhere := make(chan *Observation)
		go func() { elsewhere <- b.Observation() }()
		require.Nil(t, <-elsewhere)
		b.Observation().NoteKey([]byte("key"))
		inner, err := b.Observe(func() error {
			var own batch.Batch
			own.Add(base.KindSet, []byte("a"), nil)
			own.Add(base.KindDelete, []byte("b"), nil)
			b.Observation().NoteBatch(&own)
			return nil
		})
		require.Len(t, inner, 2)
		require.EqualValues(t, 1, b.Observing())
		return err
	})
	require.NoError(t, err)
	require.Len(t, written, 3, "those of an Update within it, too")
	require.Nil(t, b.Observation())
}
