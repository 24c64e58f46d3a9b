package base

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGoroutineThatRunsACallbackIsRecognized(t *testing.T) {
	var c Callbacks
	require.False(t, c.InThisGoroutine())
	failed := c.During(func() error {
		require.True(t, c.InThisGoroutine())
		require.NoError(t, c.During(func() error { require.True(t, c.InThisGoroutine()); return nil }))
		elsewhere := make(chan bool)
		go func() { elsewhere <- c.InThisGoroutine() }()
		require.False(t, <-elsewhere)
		require.True(t, c.InThisGoroutine())
		return ErrClosed
	})
	require.Equal(t, ErrClosed, failed)
	require.False(t, c.InThisGoroutine())
	require.Zero(t, c.running.Load(), "the next calls cost one load")
}
