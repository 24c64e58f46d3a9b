package vfstest

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// Script has short forms of operations on a Mem. They fail the test if the operation fails.
type Script struct {
	T *testing.T
	*vfs.Mem
}

// MustCreate creates a file.
func (s Script) MustCreate(name string) vfs.File {
	f, err := s.Create(name)
	require.NoError(s.T, err)
	return f
}

// Append writes data to f.
func (s Script) Append(f vfs.File, data string) {
	_, err := f.Write([]byte(data))
	require.NoError(s.T, err)
}

// Durable creates a file with that content and makes its bytes and name durable.
func (s Script) Durable(name, data string) {
	f := s.MustCreate(name)
	s.Append(f, data)
	s.OK(f.Sync(), f.Close(), s.SyncDir("."))
}

// OK fails the test if any error is not nil.
func (s Script) OK(errs ...error) {
	for _, err := range errs {
		require.NoError(s.T, err)
	}
}

// Tree returns the content of every file below dir, by path. The content of a directory is "/".
func Tree(t *testing.T, m vfs.FS, dir string) map[string]string {
	all := map[string]string{}
	names, err := m.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		path := dir + "/" + name
		info, err := m.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			all[path[2:]] = "/"
			maps.Copy(all, Tree(t, m, path))
			continue
		}
		f, err := m.Open(path)
		require.NoError(t, err)
		all[path[2:]] = Content(t, f)
		require.NoError(t, f.Close())
	}
	return all
}
