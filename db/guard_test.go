package db

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallsAreRefusedInOneOrder(t *testing.T) {
	var none *DB
	var missing context.Context
	d := new(DB)
	d.opts.ReadOnly = true
	d.closed.open.Store(true)
	notify(&d.listenerCalls, func(int) {
		require.NoError(t, d.guard(0))
		require.NoError(t, d.guardUnder(t.Context(), "Check", 0))
		require.Equal(t, ErrInListener, d.guard(toWait))
		require.Equal(t, ErrReadOnly, d.guard(toWrite|toWait))
		require.Equal(t, ErrReadOnly, d.guardUnder(t.Context(), "Ingest", toWrite|toWait))
		require.ErrorContains(t, d.guardUnder(missing, "Ingest", toWrite|toWait), "Ingest: the context is nil")
		d.closed.set()
		for _, refused := range []*DB{none, d} {
			require.Equal(t, ErrClosed, refused.guard(toWrite|toWait))
			require.Equal(t, ErrClosed, refused.guardUnder(missing, "Ingest", toWrite|toWait))
		}
	}, 0)
}
