package bench

import (
	"errors"
	"os"
)

// Writable returns an error for the first of the files that cannot be written, so that a run of
// hours does not fail at its end. It skips empty names, and leaves existing files unchanged.
func Writable(files ...string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			continue // closing a pipe would signal its end to the reader
		}
		f, openErr := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
		if openErr != nil {
			return openErr
		}
		closeErr := f.Close()
		if err != nil { // it did not exist before
			closeErr = errors.Join(closeErr, os.Remove(name))
		}
		if closeErr != nil {
			return closeErr
		}
	}
	return nil
}
