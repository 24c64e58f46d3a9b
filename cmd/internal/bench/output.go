package bench

import (
	"errors"
	"os"
)

// Writable reports the first of the files, those without a name left out, that cannot
// be written: before a run of hours, not behind it. What is there stays as it is.
func Writable(files ...string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "" || err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			continue // of a pipe's reader, to open and close would be the end
		}
		f, openErr := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
		if openErr != nil {
			return openErr
		}
		closeErr := f.Close()
		if err != nil { // it was made just now
			closeErr = errors.Join(closeErr, os.Remove(name))
		}
		if closeErr != nil {
			return closeErr
		}
	}
	return nil
}
