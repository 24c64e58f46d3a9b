package bench

import "github.com/sievedb/sievedb/vfs/outfile"

// Writable returns an error for the first of the files that cannot be written, so that a run of
// hours does not fail at its end. It skips empty names, and leaves existing files unchanged.
func Writable(files ...string) error {
	for _, name := range files {
		if name == "" {
			continue
		}
		if err := outfile.Check(name); err != nil {
			return err
		}
	}
	return nil
}
