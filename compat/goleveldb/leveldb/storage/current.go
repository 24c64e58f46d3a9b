package storage

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sievedb/sievedb/vfs"
)

const currentName = "CURRENT"

func (s *fileStorage) SetMeta(fd FileDesc) error {
	if !FileDescOk(fd) {
		return ErrInvalidFile
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(true); err != nil {
		return err
	}
	return s.setCurrent(fd)
}

// setCurrent replaces CURRENT atomically. The old content stays in CURRENT.bak.
func (s *fileStorage) setCurrent(fd FileDesc) error {
	current := filepath.Join(s.path, currentName)
	content := fd.String() + "\n"
	old, err := s.read(currentName)
	switch {
	case err == nil && string(old) == content:
		return nil
	case err == nil:
		if err := s.writeSynced(current+".bak", old); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	next := current + "." + strconv.FormatInt(fd.Num, 10)
	if err := s.writeSynced(next, []byte(content)); err != nil {
		return err
	}
	if err := os.Rename(next, current); err != nil {
		return err
	}
	return s.system.SyncDir(s.path)
}

// maxCurrent is more than every CURRENT has, in bytes.
const maxCurrent = 1 << 20

// read returns the content of a small file of the directory.
func (s *fileStorage) read(name string) ([]byte, error) {
	f, err := s.system.Open(filepath.Join(s.path, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, maxCurrent))
}

func (s *fileStorage) writeSynced(name string, data []byte) error {
	f, err := vfs.Replace(s.system, name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// GetMeta reads CURRENT. If a crash left a newer CURRENT.n, or only CURRENT.bak, that counts, and CURRENT is rewritten.
func (s *fileStorage) GetMeta() (FileDesc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(false); err != nil {
		return FileDesc{}, err
	}
	pending, err := s.pendingCurrents()
	if err != nil {
		return FileDesc{}, err
	}
	next, nextErr := s.firstCurrent(pending)
	fd, err := s.firstCurrent([]string{currentName, currentName + ".bak"})
	if nextErr == nil && (err != nil || next.Num > fd.Num) {
		fd, err = next, nil
	} else if err == os.ErrNotExist && isCorrupted(nextErr) {
		err = nextErr
	}
	if err == nil && !s.readOnly && s.setCurrent(fd) == nil {
		for _, name := range pending {
			_ = os.Remove(filepath.Join(s.path, name)) // the next GetMeta tries again
		}
	}
	return fd, err
}

// pendingCurrents returns the names of the form CURRENT.n, greatest n first.
func (s *fileStorage) pendingCurrents() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		return nil, err
	}
	var nums []int64
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), currentName+"."); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				nums = append(nums, n)
			}
		}
	}
	slices.SortFunc(nums, func(a, b int64) int { return cmp.Compare(b, a) })
	var names []string
	for _, n := range nums {
		names = append(names, currentName+"."+strconv.FormatInt(n, 10))
	}
	return names, nil
}

// firstCurrent returns the MANIFEST that the first sound file names.
func (s *fileStorage) firstCurrent(names []string) (FileDesc, error) {
	failed := os.ErrNotExist
	for _, name := range names {
		fd, err := s.readCurrent(name)
		switch {
		case err == nil:
			return fd, nil
		case isCorrupted(err):
			failed = err
		case !errors.Is(err, fs.ErrNotExist):
			return FileDesc{}, err
		}
	}
	return FileDesc{}, failed
}

func (s *fileStorage) readCurrent(name string) (FileDesc, error) {
	data, err := s.read(name)
	if err != nil {
		return FileDesc{}, err
	}
	manifest, whole := strings.CutSuffix(string(data), "\n")
	fd, ok := parseName(manifest)
	if !whole || !ok {
		return FileDesc{}, &ErrCorrupted{Err: errors.New("leveldb/storage: corrupted or incomplete CURRENT file")}
	}
	_, err = os.Stat(s.file(fd))
	return fd, err
}

func isCorrupted(err error) bool {
	_, ok := err.(*ErrCorrupted)
	return ok
}
