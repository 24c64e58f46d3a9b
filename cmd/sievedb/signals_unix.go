//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// endSignals end a verb in good order.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// keepBrokenPipes makes a write to a closed pipe an error. Without it, '| head' would kill the
// process in the middle of a verb, with the database open.
func keepBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

// isBrokenPipe reports whether the reader of the output has closed it.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
