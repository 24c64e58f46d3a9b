package main

import (
	"errors"
	"os"
	"syscall"
)

// endSignals end a verb in good order.
var endSignals = []os.Signal{os.Interrupt}

func keepBrokenPipes() {}

// The errors of a write to a pipe whose reader is gone.
const (
	errorBrokenPipe = syscall.Errno(109)
	errorNoData     = syscall.Errno(232)
)

// isBrokenPipe reports whether the reader of the output has closed it.
func isBrokenPipe(err error) bool {
	return errors.Is(err, errorBrokenPipe) || errors.Is(err, errorNoData)
}
