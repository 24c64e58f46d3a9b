package damage

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/sievedb/sievedb/vfs"
)

// Image has the files of a directory: their bytes, which must not be changed, by name.
type Image map[string][]byte

// Load reads the files of dir, except those for which skip returns true. A nil skip skips none.
func Load(fsys vfs.FS, dir string, skip func(name string) bool) (Image, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	im := Image{}
	for _, name := range names {
		if skip != nil && skip(name) {
			continue
		}
		if im[name], err = ReadFile(fsys, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return im, nil
}

// ReadFile returns the content of a file.
func ReadFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return nil, fmt.Errorf("read %d of %d bytes of %s: %w", n, len(b), path, err)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// Names returns the names of the files, sorted.
func (im Image) Names() []string { return slices.Sorted(maps.Keys(im)) }

// Size returns the total size of the files in bytes.
func (im Image) Size() (n int) {
	for _, b := range im {
		n += len(b)
	}
	return n
}

// With returns a copy of the image with the bytes of one file replaced. If b is nil, the copy does not have the file.
func (im Image) With(name string, b []byte) Image {
	out := maps.Clone(im)
	if b == nil {
		delete(out, name)
	} else {
		out[name] = b
	}
	return out
}

// FS returns a new file system in memory that has the image in dir, durably.
func (im Image) FS(dir string) (*vfs.Mem, error) {
	m := vfs.NewMem()
	if err := vfs.MkdirAllSynced(m, dir); err != nil {
		return nil, err
	}
	for name, b := range im {
		if err := WriteFile(m, filepath.Join(dir, name), b); err != nil {
			return nil, err
		}
	}
	return m, m.SyncDir(dir)
}

// WriteFile makes a file, or replaces it, and syncs it, but not its directory.
func WriteFile(fsys vfs.FS, path string, b []byte) error {
	f, err := vfs.Replace(fsys, path)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}
