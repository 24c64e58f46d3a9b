package main

import (
	"errors"
	"fmt"
)

// The exit codes. They are part of the interface: scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1   // the verb could not be done
	exitUsage       = 2   // the words or flags are wrong
	exitNotFound    = 3   // get, has, explain: the key has no value
	exitFaults      = 4   // the database is damaged or something is lost; verify: the repository is damaged
	exitDifferent   = 5   // diff: there are differences
	exitInterrupted = 130 // Ctrl-C or SIGTERM, as shells number it
	exitBrokenPipe  = 141 // the reader of the output closed it, as head does
)

// exitTopic is the text of 'sievedb help exit-codes'.
const exitTopic = `  0    done
  1    failed; the message on standard error says why
  2    wrong usage: nothing was done
  3    get, has, explain: the key has no value
  4    the database is damaged or entries are lost; verify: the backup is
  5    diff: differences were found
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP
  141  the reader of the output closed it, as '| head' does`

// failure is an error with an exit code. err is nil if the output has already said everything.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// misuse is the error of wrong words or flags.
func misuse(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf("sievedb: "+format, args...)}
}

// ended is the error of a verb that was done and has a result other than exitOK.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return &failure{code: code}
}

// isResult reports whether err is a result of a verb that was done, such as "there are differences".
func isResult(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.err == nil
}

func codeOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitOK
	case isBrokenPipe(err):
		return exitBrokenPipe
	case errors.As(err, &f):
		return f.code
	}
	return exitFailed
}
