//go:build !unix && !windows

package main

import "os"

// endSignals end a verb in good order.
var endSignals = []os.Signal{os.Interrupt}

func keepBrokenPipes() {}

// isBrokenPipe reports whether the reader of the output has closed it. These systems do not say so.
func isBrokenPipe(error) bool { return false }
