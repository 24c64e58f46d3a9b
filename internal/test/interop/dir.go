package interop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// CopyDir copies the files of the directory from to a new directory into, without those of directories in it.
func CopyDir(into, from string) error {
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	return copyFiles(into, from)
}

func copyFiles(into, from string) error {
	names, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range names {
		if f.IsDir() { // lost, of LevelDB's repair
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if err := outfile.Write(filepath.Join(into, f.Name()), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// copyLiveDir copies a directory that a database has open. Files come and go in the background, so a copy counts only
// if the listing was the same before and after it: no file can go and come back under the same name.
func copyLiveDir(into, from string) error {
	const attempts = 100
	for range attempts {
		before, err := listing(from)
		if err != nil {
			return err
		}
		if err := CopyDir(into, from); err == nil {
			after, err := listing(from)
			if err != nil {
				return err
			}
			if slices.Equal(before, after) {
				return nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(into); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s changed during each of %d attempts to copy it", from, attempts)
}

// listing returns the names and sizes of the files of dir.
func listing(dir string) ([]string, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, f := range names {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s %d", f.Name(), info.Size()))
	}
	return list, nil
}
