//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// After one Ctrl-C in a shell, every later verb that can be interrupted ended with "interrupted" at once: the
// context of the process was canceled, too.
func TestCtrlCInAShellEndsOneVerb(t *testing.T) {
	process, end := signal.NotifyContext(t.Context(), os.Interrupt)
	defer end()
	ctrlC := func() { require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGINT)) }
	own := ownInterrupts()
	defer signal.Stop(own.ignored)
	for range 2 {
		verb, stop := own.during(process)
		require.NoError(t, verb.Err())
		ctrlC()
		<-verb.Done()
		require.NoError(t, process.Err(), "the shell runs")
		stop()
		ctrlC() // between two verbs it does nothing
		<-own.ignored
		require.NoError(t, process.Err())
	}
}
